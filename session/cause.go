package session

import (
	"strings"
	"time"
)

// A Cause is why a task does less than its session asks for, or nothing. The state of a task, events, checks of
// doctors and the page say it in the same words: texts about it begin with the cause.
type Cause string

// Causes.
const (
	Hidden       Cause = "hidden by "                         // a program of other software keeps packets, or callbacks, from Pillion's
	NotReachable Cause = "not reachable: "                    // path probes to a peer are not answered
	ClockApart   Cause = "clock apart: "                      // the clock of the host differs from others by more than they accept
	NoRoom       Cause = "no room: "                          // packets leave no room for marks
	Refused      Cause = "refused by the policy of this host" // an error, not a limit
)

// causes have what to do about each.
var causes = []struct {
	Cause
	advice string
}{
	{Refused, "change the session, or the policy of that host"},
	{Hidden, "let Pillion's program run first, or measure on another interface: bpftool net lists the programs; docs/howto/troubleshooting.md"},
	{NotReachable, "check that the host is up, and permit UDP port 25253 to it"},
	{ClockApart, "synchronise the clocks (apt install chrony, chronyc makestep), or leave marks without tags (authentication: off)"},
	{NoRoom, "use a smaller encoding, or lower the MTU of the application; docs/reference/encodings.md"},
}

// ClocksMatter says what happens to marks when clocks differ.
const ClocksMatter = "hosts whose clocks differ by more than 17 s take each other's authenticated marks for forged"

// In returns what an error or a limit says about the cause; empty: nothing. Limits are joined by semicolons.
func (c Cause) In(text string) string {
	at := 0
	if !strings.HasPrefix(text, string(c)) {
		at = strings.Index(text, "; "+string(c)) + 2
		if at < 2 {
			return ""
		}
	}
	text = text[at:]
	for _, other := range causes {
		if before, _, found := strings.Cut(text, "; "+string(other.Cause)); found {
			text = before
		}
	}
	return text
}

// Advice says what to do about an error or a limit; empty: nothing is known of it.
func Advice(text string) string {
	for _, c := range causes {
		if c.In(text) != "" {
			return c.advice
		}
	}
	return ""
}

// Names of checks that programs look for.
const (
	CheckSession = "session" // whether one measures the direction
	CheckMarks   = "marks"   // whether marks arrive; only of a session that runs
)

// A Reason is one finding about why packets are measured or not. The name of its check is for programs; texts may change.
type Reason struct {
	Check
	// Where is an agent, "A and B" for what concerns both, or "A > B" for a direction.
	Where string
	// Since is when it began; zero: unknown.
	Since time.Time
	// Agent and Session are those concerned; empty: not a single one.
	Agent, Session string
}
