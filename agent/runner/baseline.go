package runner

// baseline are the counters of a device when a session began there: what it counted before is not the session's.
type baseline map[string]uint64

// subtract takes it from the counters of now. If one of them is smaller, the program was replaced and counts from 0.
func (b baseline) subtract(counters map[string]uint64) {
	for name, before := range b {
		if counters[name] < before {
			clear(b)
			return
		}
	}
	for name, before := range b {
		if before > 0 {
			counters[name] -= before
		}
	}
}
