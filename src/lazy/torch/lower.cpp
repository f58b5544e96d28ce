#include "lazy/torch/lower.h"

namespace neuron::lazy {
namespace {

LowerFn find_in_tables(std::string_view name) {
  for (const LowerTable* table :
       {&pointwise_lowerings(), &row_lowerings(), &foreach_lowerings(),
        &matmul_lowerings(), &index_lowerings()}) {
    const auto found = table->find(name);
    if (found != table->end()) return found->second;
  }
  return nullptr;
}

}  // namespace

LowerFn find_lowering(std::string_view name) {
  const LowerFn found = find_in_tables(name);
  if (found != nullptr || !name.ends_with('_')) return found;
  return find_in_tables(name.substr(0, name.size() - 1));
}

}  // namespace neuron::lazy
