# Puts page.html, page.css and the scripts together as bytes of a C++ file, with the hashes that the page's policy names.
# cmake -DFOLDER=agent/http/page -DOUTPUT=page.cpp -P EmbedPage.cmake

# Of a text, as a Content-Security-Policy names it. CMake has no base64.
function(policy_hash out text)
  set(digits ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  string(SHA256 hex "${text}")
  set(result "")
  foreach(at RANGE 0 60 6)
    string(SUBSTRING "${hex}00" ${at} 6 part)
    math(EXPR bits "0x${part}")
    foreach(shift 18 12 6 0)
      math(EXPR digit "(${bits} >> ${shift}) & 63")
      string(SUBSTRING ${digits} ${digit} 1 sign)
      string(APPEND result ${sign})
    endforeach()
  endforeach()
  string(SUBSTRING ${result} 0 43 result)  # 32 bytes, and one of padding
  set(${out} "sha256-${result}=" PARENT_SCOPE)
endfunction()

# A file's text as it is: file(READ) with a hash over it takes ";" and "[" as they are within quotes.
file(READ ${FOLDER}/page.css style)
set(script "")
foreach(part elements scales charts rounds ranks head page)  # page.js begins when the others are there
  file(READ ${FOLDER}/${part}.js text)
  string(APPEND script "${text}")
endforeach()
set(script "'use strict';\n(() => {\n${script}})();\n")
file(READ ${FOLDER}/page.html page)
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}" page "${page}")
policy_hash(STYLE_HASH "${style}")
policy_hash(SCRIPT_HASH "${script}")
file(WRITE ${OUTPUT}.html "${page}")
file(READ ${OUTPUT}.html bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," PAGE_BYTES "${bytes}")
configure_file(${FOLDER}/page.cpp.in ${OUTPUT} @ONLY)
