package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pillion.dev/cli/command"
	"pillion.dev/probe/hook"
	"pillion.dev/session"
)

func TestDoctorPeers(t *testing.T) {
	for _, peer := range []string{"south1", "192.0.2.7:8470", "192.0.2.0/24", ""} {
		if err := (&doctorCmd{Peer: []string{"192.0.2.7", peer}}).Run(t.Context()); !errors.Is(err, command.ErrValue) || !strings.Contains(err.Error(), "use an IP address") {
			t.Errorf("%q: %v", peer, err)
		}
	}
}

func TestDoctorReport(t *testing.T) {
	good := session.Check{Name: "memory", Level: "ok", Found: "900 MiB available"}
	loose := session.Check{Name: "clock", Level: "warning", Found: "not synchronised", Advice: "apt install chrony"}
	bad := session.Check{Name: "rights", Level: "error", Found: "user 7", Advice: "run as root"}
	for _, row := range []struct {
		name   string
		checks []session.Check
		unfit  bool
	}{
		{"all is well", []session.Check{good}, false},
		{"a warning", []session.Check{good, loose}, false},
		{"an error", []session.Check{good, bad, loose}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var table, list strings.Builder
			err := (&doctorCmd{}).report(&table, row.checks)
			if errors.Is(err, errUnfit) != row.unfit || (err != nil && Fail(&strings.Builder{}, err) != command.ExitFailure) {
				t.Errorf("got error %v", err)
			}
			if err := (&doctorCmd{JSON: true}).report(&list, row.checks); errors.Is(err, errUnfit) != row.unfit {
				t.Errorf("got error %v", err)
			}
			var read []session.Check
			if err := json.Unmarshal([]byte(list.String()), &read); err != nil || len(read) != len(row.checks) {
				t.Errorf("read %q: %v", list.String(), err)
			}
			for _, check := range row.checks {
				if !strings.Contains(table.String(), check.Found) || !strings.Contains(table.String(), check.Advice) {
					t.Errorf("%+v is not in\n%s", check, table.String())
				}
			}
		})
	}
}

// TestRefusalIsNoLackOfPrivileges: root does not help against the verifier.
func TestRefusalIsNoLackOfPrivileges(t *testing.T) {
	refused := &ebpf.VerifierError{Cause: unix.EACCES, Log: []string{"invalid zero-sized read"}}
	for _, row := range []struct {
		name string
		err  error
		sudo bool
	}{
		{"refused", hook.Explain(refused), false},
		{"refused to another package", fmt.Errorf("load programs (needs Linux 5.17): %w", refused), false},
		{"not permitted", fmt.Errorf("map flows: %w", unix.EPERM), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			var text strings.Builder
			Fail(&text, row.err)
			if strings.Contains(text.String(), "use sudo") != row.sudo || strings.Contains(text.String(), "invalid zero-sized read") == row.sudo {
				t.Error(text.String())
			}
		})
	}
}
