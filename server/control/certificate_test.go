package control

import (
	"errors"
	"testing"

	"pillion.dev/server/authority"
)

// TestLostAnswersToRenewal: the certificate that an agent last used stays valid however
// many renewals it repeats, with new keys or with the same.
func TestLostAnswersToRenewal(t *testing.T) {
	bed(t, func(b *testbed) {
		b.join("h1")
		standing := func(what, serial string, is error) {
			t.Helper()
			if err := b.control.Standing("h1", certificate(serial)); !errors.Is(err, is) {
				t.Errorf("%s: got %v, want %v", what, err, is)
			}
		}
		for _, serial := range []string{"2", "3", "3", "4"} {
			if err := b.control.Renewed("h1", certificate(serial)); err != nil {
				t.Fatal(err)
			}
			standing("the certificate in use, after an answer was lost", "1", nil)
		}
		b.stop()
		b.boot()
		standing("the certificate in use, after a restart", "1", nil)
		again := certificate("4")
		again.Serial = "5" // issued again for the same key
		if err := b.control.Renewed("h1", again); err != nil {
			t.Fatal(err)
		}
		standing("a certificate whose answer arrived late", "4", nil)
		standing("the certificate before it", "1", ErrSuperseded)
		standing("one of a lost answer", "3", ErrSuperseded)
	})
}

func TestClaimRepeatedWithTheSameKey(t *testing.T) {
	bed(t, func(b *testbed) {
		grant := authority.Grant{Token: "rack7", Labels: map[string]string{"rack": "7"}}
		for n, want := range []bool{true, false} {
			if joined, err := b.control.Claim("h1", certificate("1"), grant); err != nil || joined != want {
				t.Errorf("claim %d: %v, %v", n, joined, err)
			}
		}
		if _, err := b.control.Claim("h1", certificate("2"), grant); !errors.Is(err, ErrExists) {
			t.Errorf("another key: %v", err)
		}
		if a, err := b.control.Agent("h1"); err != nil || a.TokenLabels["rack"] != "7" {
			t.Errorf("got %+v, %v", a.TokenLabels, err)
		}
		b.join("h2")
		if err := b.control.Revoke("h2"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.control.Claim("h2", certificate("1"), grant); !errors.Is(err, ErrExists) {
			t.Errorf("a revoked agent: %v", err)
		}
	})
}
