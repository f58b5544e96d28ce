// Laws:
//  1. A thread's own frame cannot move while the thread is in C++, so its code pointer
//  and
//     instruction may be read without the GIL.
//  2. Frames of PyTorch and of this package are passed over: the line is the user's.
//  3. The first time a thread meets a code object it takes the GIL and the process keeps
//  a
//     reference for ever; later sights cost a look into a small table.
#include "bindings/site.h"

#include <Python.h>
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/blocking.h"
#include "base/knobs.h"
#include "base/site.h"
#include "base/thread_slot.h"

static_assert(PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000,
              "frames are read as CPython 3.11 lays them out");

namespace neuron::bindings {
namespace {

struct Interned {
  std::mutex mutex;
  std::set<const void*> codes;
  std::vector<std::string> stacks;  // stack number i + 1
};

Interned& interned() {
  static auto* interned = new Interned;
  return *interned;
}

std::string text_of(PyObject* object) {
  const char* text = object != nullptr ? PyUnicode_AsUTF8(object) : nullptr;
  return text != nullptr ? text : "?";
}

// Code of PyTorch and of this package: not what the user wrote.
bool is_library(PyCodeObject* code) {
  const std::string file = text_of(code->co_filename);
  return file.find("/torch/") != std::string::npos ||
         file.find("/torch_neuronx/") != std::string::npos;
}

// Keeps `code` alive for ever; returns whether it is a library's.
bool keep(PyCodeObject* code) {
  if (Py_IsInitialized() == 0 || _Py_IsFinalizing()) return false;
  const PyGILState_STATE state = PyGILState_Ensure();
  {
    std::lock_guard lock(interned().mutex);
    if (interned().codes.insert(code).second) Py_INCREF(code);
  }
  const bool library = is_library(code);
  PyGILState_Release(state);
  return library;
}

// Makes sure that `code` is kept, and says whether it is a library's.
bool remember(PyCodeObject* code) {
  struct Seen {
    const void* code = nullptr;
    bool is_library = false;
  };
  static NEURON_THREAD_SLOT std::array<Seen, 512>* table = nullptr;
  if (table == nullptr) table = new std::array<Seen, 512>;  // kept as long as the process
  Seen& seen = (*table)[reinterpret_cast<size_t>(code) / 64 % table->size()];
  if (seen.code != code) seen = {code, keep(code)};
  return seen.is_library;
}

std::string line_of(PyCodeObject* code, int instruction) {
  const int line = PyCode_Addr2Line(code, instruction);
  return text_of(code->co_filename) + ":" + std::to_string(line);
}

uint32_t capture_stack(_PyInterpreterFrame* frame) {
  const PyGILState_STATE state = PyGILState_Ensure();
  std::string text;
  for (; frame != nullptr; frame = frame->previous) {
    if (_PyFrame_IsIncomplete(frame)) continue;
    text += "\n    " + line_of(frame->f_code, _PyInterpreterFrame_LASTI(frame) * 2) +
            " in " + text_of(frame->f_code->co_qualname);
  }
  uint32_t number = 0;
  {
    std::lock_guard lock(interned().mutex);
    auto& stacks = interned().stacks;
    const auto found = std::find(stacks.begin(), stacks.end(), text);
    number = static_cast<uint32_t>(found - stacks.begin()) + 1;
    if (found == stacks.end()) stacks.push_back(text);
  }
  PyGILState_Release(state);
  return number;
}

Site capture() {
  PyThreadState* thread = PyGILState_GetThisThreadState();
  _PyInterpreterFrame* frame =
      thread != nullptr ? thread->cframe->current_frame : nullptr;
  Site site;
  // The innermost line of the user; the innermost of all where only libraries are on the
  // stack.
  for (auto* at = frame; at != nullptr; at = at->previous) {
    if (_PyFrame_IsIncomplete(at)) continue;
    const bool library = remember(at->f_code);
    if (site.code != nullptr && library) continue;
    site.code = at->f_code;
    site.instruction = _PyInterpreterFrame_LASTI(at) * 2;
    if (!library) break;
  }
  if (site.code != nullptr && knobs().enable_stack_trace)
    site.stack = capture_stack(frame);
  return site;
}

std::string describe(const Site& site) {
  if (Py_IsInitialized() == 0 || _Py_IsFinalizing()) return "<no Python line>";
  const PyGILState_STATE state = PyGILState_Ensure();
  auto* code = reinterpret_cast<PyCodeObject*>(const_cast<void*>(site.code));
  std::string text = line_of(code, site.instruction);
  PyGILState_Release(state);
  if (site.stack != 0) {
    std::lock_guard lock(interned().mutex);
    text += interned().stacks[site.stack - 1];
  }
  return text;
}

void* release_gil() {
  return Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread()
                                                            : nullptr;
}

void restore_gil(void* token) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(token));
}

}  // namespace

void install_hooks() {
  site_hooks() = {&capture, &describe};
  blocking_hooks() = {&release_gil, &restore_gil};
}

}  // namespace neuron::bindings
