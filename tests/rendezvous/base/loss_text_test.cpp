#include "rendezvous/base/loss_text.h"

#include <limits>

#include "tests/support/test.h"

TEST_CASE("a loss has four significant digits", "[base]") {
  const std::pair<double, const char*> all[] = {{0.213, "0.2130"},
                                                {0.5, "0.5000"},
                                                {0, "0.000"},
                                                {12.34567, "12.35"},
                                                {9.9996, "10.00"},
                                                {-3, "-3.000"},
                                                {1234.4, "1234"},
                                                {12345.6, "1.235e+04"},
                                                {0.00012, "0.0001200"},
                                                {1.25e-5, "1.250e-05"},
                                                {std::numeric_limits<double>::infinity(), "inf"}};
  for (const auto& [loss, text] : all) CHECK(loss_text(loss) == text);
}
