package pillion

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/internal/every"
)

// sessionWhy lists reasons why rows of a session may be missing, most relevant first.
func sessionWhy(s *pillionv1.Session) (why []string) {
	reason := ""
	if s.GetReason() != "" {
		reason = ": " + s.GetReason()
	}
	switch s.GetState() {
	case "running":
	case "scheduled":
		why = append(why, "the session is scheduled to start at "+when(s.GetNextStart()).shown+reason)
	default:
		why = append(why, "the session is "+s.GetState()+reason)
	}
	for _, t := range s.GetTasks() {
		if t.GetError() != "" {
			why = append(why, fmt.Sprintf("%s on %s is not running: %s", t.Role, cmp.Or(t.Agent, "its agent"), t.Error))
		}
	}
	return why
}

// silentWhy is the reason why a session that runs has no rows.
func silentWhy(s *pillionv1.Session) string {
	for _, t := range s.GetTasks() {
		if t.GetRunning() && t.GetRole() != "trace" {
			return "no marked packets arrive: is there traffic between the hosts that matches the filters?"
		}
	}
	return "no agent has started to measure yet"
}

// pollSession requests the session's state every second. Its errors show where rows are read too.
func pollSession(ctx context.Context, client *api.Client, name string, take func(*pillionv1.Session)) {
	every.Do(ctx, time.Second, func() {
		if answer, err := client.Sessions.GetSession(ctx, &pillionv1.GetSessionRequest{Name: name}); err == nil {
			take(answer.GetSession())
		}
	})
}
