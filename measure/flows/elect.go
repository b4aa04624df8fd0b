package flows

import "iter"

// Elect returns the session that counts for a pair of hosts. Every session on a pair
// marks and counts the same packets, so their rows must not be added up: the one that
// saw most packets counts, the first by name among equals. A session that counted
// before keeps its place until another saw lead times as many (1: no advantage).
func Elect(packets iter.Seq2[string, float64], before string, lead float64) (elected string) {
	most, found := 0.0, false
	for session, n := range packets {
		if session == before {
			n *= lead
		}
		better := n > most || n == most && (session == before || elected != before && session < elected)
		if !found || better {
			elected, most, found = session, n, true
		}
	}
	return elected
}
