package control

import _ "pillion.dev/send/traffic" // registers the point send
