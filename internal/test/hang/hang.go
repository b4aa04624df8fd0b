// Package hang bounds how long tests wait.
package hang

import "time"

// Limit is how long a test waits for a condition, a packet or a process until that counts as a hang. It is no
// statement about how fast anything is: on a busy machine, nothing but a hang may reach it.
const Limit = 3 * time.Minute
