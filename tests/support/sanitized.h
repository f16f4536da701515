// Whether a test is built with AddressSanitizer or ThreadSanitizer, under gcc or clang.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DDPRUN_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DDPRUN_SANITIZED 1
#endif
#endif
#ifndef DDPRUN_SANITIZED
#define DDPRUN_SANITIZED 0
#endif

namespace ddprun::test {

constexpr bool kSanitized = DDPRUN_SANITIZED == 1;

}  // namespace ddprun::test
