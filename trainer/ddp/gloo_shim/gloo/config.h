// ProcessGroupGloo.hpp uses nothing of it.
#pragma once
