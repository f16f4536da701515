#include "agent/stacks/function_name.h"

#include "tests/support/catch.h"

using namespace ddprun::agent;

TEST_CASE("a symbol becomes the name that people write", "[stacks]") {
  CHECK(function_name("_ZN4c10d4Work4waitENSt6chrono8durationIlSt5ratioILl1ELl1000EEEE") == "c10d::Work::wait");
  CHECK(function_name("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE") == "std::condition_variable::wait");
  CHECK(function_name("_ZN4gloo9transport3tcp4Loop3runEv") == "gloo::transport::tcp::Loop::run");
  CHECK(function_name("pthread_cond_wait@@GLIBC_2.3.2") == "pthread_cond_wait");
  CHECK(function_name("_PyEval_EvalFrameDefault") == "_PyEval_EvalFrameDefault");
  CHECK(function_name("gomp_barrier_wait_end.part.0") == "gomp_barrier_wait_end");
  CHECK(function_name("_ZN4work4stepEv.constprop.0.isra.0") == "work::step");
  CHECK(function_name("_ZN4work4stepEv.cold") == "work::step");
}

TEST_CASE("a demangled name loses return type, arguments and template arguments", "[stacks]") {
  CHECK(shortened("main") == "main");
  CHECK(shortened("void at::native::copy<float, at::Tensor (*)(int)>(at::Tensor const&, bool) const") ==
        "at::native::copy");
  CHECK(shortened("std::vector<int, std::allocator<int> >::push_back(int const&)") == "std::vector::push_back");
  CHECK(shortened("gloo::(anonymous namespace)::allreduce(gloo::detail::AllreduceOptionsImpl const&)") ==
        "gloo::(anonymous namespace)::allreduce");
  CHECK(shortened("(anonymous namespace)::run()") == "(anonymous namespace)::run");
  CHECK(shortened("std::__cxx11::basic_string<char>::append[abi:cxx11](char const*)") ==
        "std::__cxx11::basic_string::append");
  CHECK(shortened("train(int)::{lambda(int, std::vector<int>)#2}::operator()(int, std::vector<int>) const") ==
        "train::{lambda}::operator()");
  CHECK(shortened("Loop::run() const::{lambda()#1}::operator()() const") == "Loop::run::{lambda}::operator()");
  CHECK(shortened("main::$_0::operator()() const") == "main::$_0::operator()");
  CHECK(shortened("decltype (f(1)) call<int>(int)") == "call");
}

TEST_CASE("operators keep their names", "[stacks]") {
  CHECK(shortened("operator new(unsigned long)") == "operator new");
  CHECK(shortened("Matrix::operator()(int, int)") == "Matrix::operator()");
  CHECK(shortened("bool std::operator< <char>(std::string const&, char const*)") == "std::operator<");
  CHECK(shortened("std::ostream& std::operator<< <std::char_traits<char> >(std::ostream&, char)") == "std::operator<<");
  CHECK(shortened("Pointer<int>::operator->() const") == "Pointer::operator->");
  CHECK(shortened("Value::operator unsigned long() const") == "Value::operator unsigned long");
  CHECK(shortened("cooperator::run(int)") == "cooperator::run");
}
