package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pillion.dev/internal/quota"
	"pillion.dev/oml/omsp"
)

// TestUserCannotWriteIntoAnothersStream: a domain belongs to the user who reported first,
// also after a restart, until it has not been used for long; shared ones are open to all.
func TestUserCannotWriteIntoAnothersStream(t *testing.T) {
	folder := t.TempDir()
	a := begin(t, folder)
	a.shared["common"] = true
	alice, mallory := a.For("user 1000"), a.For("user 1001")
	for _, domain := range []string{"lab", "common"} {
		if _, err := alice.Start(domain, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := mallory.Start("lab", 1000); err == nil || !strings.Contains(err.Error(), "belongs to user 1000, not to user 1001") {
		t.Errorf("another user: %v", err)
	}
	if _, err := a.For("unknown user").Start("lab", 1000); err == nil {
		t.Error("an unknown user may report")
	}
	if _, err := mallory.Start("common", 1000); err != nil {
		t.Errorf("shared domain: %v", err)
	}
	if start, err := alice.Start("lab", 5000); err != nil || start != 1000 {
		t.Errorf("the owner again: %d, %v", start, err)
	}
	a.end()
	a = begin(t, folder)
	defer a.end()
	if _, err := a.For("user 1001").Start("lab", 1000); err == nil {
		t.Error("after a restart another user may report")
	}
	a.domains["lab"].used = time.Now().Add(-unusedMost)
	if _, err := a.For("user 1001").Start("lab", 1000); err != nil {
		t.Errorf("an unused domain: %v", err)
	}
}

// TestDomainOfAnUnknownUser: whose connection was closed before its user was found does not
// lock out anybody, least of all the same user's next one.
func TestDomainOfAnUnknownUser(t *testing.T) {
	a := begin(t, t.TempDir())
	defer a.end()
	for _, row := range []struct {
		user    string
		refused bool
	}{{"unknown user", false}, {"unknown user", false}, {"user 1000", false}, {"unknown user", true}, {"user 1001", true}, {"user 1000", false}} {
		if _, err := a.For(row.user).Start("lab", 1000); (err != nil) != row.refused {
			t.Errorf("%s: %v", row.user, err)
		}
	}
}

// TestUserCannotFillTables: the domains and tables of one user are bounded, others have
// theirs.
func TestUserCannotFillTables(t *testing.T) {
	a := begin(t, t.TempDir())
	defer a.end()
	evil, good := a.For("user 1000"), a.For("user 1001")
	for n := range userDomains + 5 {
		if _, err := evil.Start(fmt.Sprint("d", n), 1); (err == nil) != (n < userDomains) || err != nil && quota.Of(err) == nil {
			t.Fatalf("domain %d: %v", n, err)
		}
	}
	for n := range userTables + 5 {
		s := omsp.Schema{Name: fmt.Sprint("t", n), Fields: table.Fields}
		if _, err := evil.Table("d0", s); (err == nil) != (n < userTables) || err != nil && quota.Of(err) == nil {
			t.Fatalf("table %d: %v", n, err)
		}
	}
	if _, err := good.Start("mine", 1); err != nil {
		t.Error(err)
	}
	if _, err := good.Table("mine", table); err != nil {
		t.Error(err)
	}
}
