#include "base/site.h"

namespace neuron {

SiteHooks& site_hooks() {
  static SiteHooks hooks;
  return hooks;
}

std::string describe_site(const Site& site) {
  if (site.code == nullptr || site_hooks().describe == nullptr) return "<no Python line>";
  return site_hooks().describe(site);
}

}  // namespace neuron
