package loader

import _ "pillion.dev/send/task" // registers the point send
