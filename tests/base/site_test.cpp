#include "base/site.h"

#include <gtest/gtest.h>

namespace neuron {
namespace {

// Puts hooks in place for the lifetime of a test.
class Hooked {
 public:
  explicit Hooked(SiteHooks hooks) { site_hooks() = hooks; }
  ~Hooked() { site_hooks() = {}; }
};

const int kCode = 0;

TEST(Site, OutsidePythonThereIsNoLine) {
  EXPECT_EQ(capture_site(), Site{});
  EXPECT_EQ(describe_site(Site{}), "<no Python line>");
  EXPECT_EQ(describe_site(Site{&kCode, 4, 0}), "<no Python line>");
}

TEST(Site, TheHooksCaptureAndDescribe) {
  const Hooked hooked(
      {[] { return Site{&kCode, 6, 0}; },
       [](const Site& site) { return "file.py:" + std::to_string(site.instruction); }});
  const Site site = capture_site();
  EXPECT_EQ(site.code, &kCode);
  EXPECT_EQ(describe_site(site), "file.py:6");
}

TEST(Site, AnEmptySiteIsNotGivenToTheHook) {
  const Hooked hooked({nullptr, [](const Site&) { return std::string("called"); }});
  EXPECT_EQ(describe_site(Site{}), "<no Python line>");
}

}  // namespace
}  // namespace neuron
