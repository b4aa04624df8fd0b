package authority

import (
	"crypto/x509"
	"testing"
	"time"
)

// TestStepOfTheClockLocksNobodyOut: what is made while the clock is wrong is valid once it is right.
func TestStepOfTheClockLocksNobodyOut(t *testing.T) {
	const day = 24 * time.Hour
	for _, step := range []time.Duration{time.Hour, 40 * day, 340 * day, 800 * day, -time.Hour, -40 * day, -340 * day} {
		for _, from := range []string{"the first start", "a handshake", "a start"} {
			t.Run(from+" at "+step.String(), func(t *testing.T) {
				folder, c := t.TempDir(), &clock{time.Now()}
				right := c.time
				if from == "the first start" {
					c.time = c.time.Add(step)
				}
				a, _ := open(t, folder, c)
				if from != "the first start" {
					c.time = c.time.Add(step)
				}
				if from == "a start" {
					a, _ = open(t, folder, c)
				}
				check := func(a *Authority) {
					t.Helper()
					server, err := a.TLS().GetCertificate(nil)
					if err != nil {
						t.Fatal(err)
					}
					client, err := a.ClientTLS().GetClientCertificate(nil)
					if err != nil {
						t.Fatal(err)
					}
					options := x509.VerifyOptions{Roots: a.pool, CurrentTime: right, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
					for _, leaf := range []*x509.Certificate{server.Leaf, client.Leaf} {
						if _, err := leaf.Verify(options); err != nil {
							t.Errorf("%s: %v", leaf.Subject, err)
						}
					}
				}
				check(a)
				der, _, err := a.SignAgent(csr(t), "north")
				if err != nil {
					t.Fatal(err)
				}
				c.time = right
				if _, err := a.VerifyAgent(stateOf(t, der)); err != nil {
					t.Error(err)
				}
				check(a)
				again, _ := open(t, folder, c)
				check(again)
			})
		}
	}
}

// TestCertificateThatIsNotYetValidIsReplaced: an earlier version made one while its clock was ahead.
func TestCertificateThatIsNotYetValidIsReplaced(t *testing.T) {
	folder, c := t.TempDir(), &clock{time.Now()}
	a, _ := open(t, folder, c)
	for _, file := range []string{serverFile, clientFile} {
		if _, err := a.renewIdentity(file, func() (*identity, error) {
			template := a.serverTemplate()
			template.NotBefore = c.time.Add(time.Hour)
			return a.makeIdentity(template)
		}); err != nil {
			t.Fatal(err)
		}
	}
	again, _ := open(t, folder, c)
	server, err := again.serverIdentity(true)
	if err != nil {
		t.Fatal(err)
	}
	client, err := again.clientIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for _, made := range []*identity{server, client} {
		if c.time.Before(made.leaf.NotBefore) {
			t.Errorf("%s is valid from %v", made.leaf.Subject, made.leaf.NotBefore)
		}
	}
}

// TestNothingIsRenewedByAContradictedClock: certificates are made by the clock of Options.Issued.
func TestNothingIsRenewedByAContradictedClock(t *testing.T) {
	c := &clock{time.Now()}
	right := c.time
	a, err := OpenKeys(t.TempDir(), Options{Now: c.now, Issued: func() time.Time { return right }})
	if err != nil {
		t.Fatal(err)
	}
	before, err := a.serverIdentity(true)
	if err != nil {
		t.Fatal(err)
	}
	c.time = c.time.Add(340 * 24 * time.Hour)
	if after, err := a.serverIdentity(true); err != nil || after != before {
		t.Errorf("renewed: %v, %v", after, err)
	}
}
