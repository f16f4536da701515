// A target with precompiled headers needs a file to compile; see tests/CMakeLists.txt.
