package authority

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestTokens(t *testing.T) {
	folder := t.TempDir()
	c := &clock{time.Now()}
	a, _ := open(t, folder, c)
	hour := c.time.Add(time.Hour)
	made, secret, err := a.Create(Token{Name: "viewer-1", Role: RoleViewer, Expires: hour})
	if err != nil || made.Name != "viewer-1" || made.Role != RoleViewer || !made.Expires.Equal(hour) {
		t.Fatalf("got %+v, %v", made, err)
	}
	for _, row := range []struct {
		name, token, role string
		expires           time.Time
		want              error
	}{
		{"taken", "viewer-1", RoleViewer, time.Time{}, ErrExists},
		{"role", "x", "root", time.Time{}, ErrInvalid},
		{"empty name", "", RoleViewer, time.Time{}, ErrInvalid},
		{"path", "../x", RoleViewer, time.Time{}, ErrInvalid},
		{"past", "x", RoleViewer, c.time, ErrInvalid},
	} {
		t.Run(row.name, func(t *testing.T) {
			if _, _, err := a.Create(Token{Name: row.token, Role: row.role, Expires: row.expires}); !errors.Is(err, row.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if token, err := a.Check(secret); err != nil || token.Name != "viewer-1" {
		t.Errorf("got %+v, %v", token, err)
	}
	for _, wrong := range []string{"", "pt_", secret[:len(secret)-1], strings.ToUpper(secret), secret + " ", strings.Repeat("x", 1<<20)} {
		if _, err := a.Check(wrong); !errors.Is(err, ErrUnknown) {
			t.Errorf("%.50q: %v", wrong, err)
		}
	}
	if _, err := a.Check("pj_00_x"); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("join token of another server: %v", err)
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, folder, c)
	if list := again.List(); len(list) != 3 || list[2].Used.IsZero() || !list[2].Expires.Equal(hour) {
		t.Errorf("after a restart: %+v", list)
	}
	c.time = hour
	if _, err := again.Check(secret); !errors.Is(err, ErrExpired) {
		t.Errorf("expired: %v", err)
	}
	c.time = hour.Add(-time.Minute)
	if err := errors.Join(again.Revoke("viewer-1"), again.Revoke("viewer-1")); err != nil {
		t.Fatal(err)
	}
	again, _ = open(t, folder, c)
	if _, err := again.Check(secret); !errors.Is(err, ErrRevoked) {
		t.Errorf("revoked: %v", err)
	}
	if err := again.Revoke("unknown"); !errors.Is(err, ErrNotFound) {
		t.Errorf("unknown token: %v", err)
	}
}

func TestLastAdminCannotBeRevoked(t *testing.T) {
	c := &clock{time.Now()}
	a, _ := open(t, t.TempDir(), c)
	if err := a.Revoke("admin"); !errors.Is(err, ErrLast) {
		t.Errorf("revoke the only one: %v", err)
	}
	if _, _, err := a.Create(Token{Name: "brief", Role: RoleAdmin, Expires: c.time.Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	c.time = c.time.Add(2 * time.Hour)
	if err := a.Revoke("admin"); !errors.Is(err, ErrLast) {
		t.Errorf("revoke while the other has expired: %v", err)
	}
	if _, _, err := a.Create(Token{Name: "second", Role: RoleAdmin, Expires: time.Time{}}); err != nil {
		t.Fatal(err)
	}
	if err := a.Revoke("admin"); err != nil {
		t.Errorf("revoke while another exists: %v", err)
	}
}

func TestTokensAreSafeForConcurrentUse(t *testing.T) {
	a, _ := open(t, t.TempDir(), &clock{time.Now()})
	operator, _, err := a.Secrets()
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		group.Go(func() {
			if _, _, err := a.Create(Token{Name: name, Role: RoleViewer, Expires: time.Time{}}); err != nil {
				t.Error(err)
			}
			if _, err := a.Check(operator); err != nil {
				t.Error(err)
			}
			a.List()
		})
	}
	group.Wait()
	if got := len(a.List()); got != 6 {
		t.Errorf("%d tokens", got)
	}
}
