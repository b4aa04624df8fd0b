//go:build long

package lab_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pillion.dev/lab/receiver"
)

// pathRules are those of a test that waits for each alarm once.
const pathRules = `
alarms: [{name: path, on: path}]
notify:
  - {name: hook, webhook: {url: "http://127.0.0.1:9099/"}}
  - {name: mail, match: [alertname=~"path|flow-silence"], email: {to: [noc@example.org], from: pillion@example.org, server: "127.0.0.1:9025", tls: none}}
`

// largeOnly drops the IPv4 packets that are larger than those of the application's first flow, with their marks.
const largeOnly = "table ip fault { chain forward { type filter hook forward priority 0; meta length > 500 drop; }; }"

// sends sends packets of a size from a to b until the test ends. Nobody reads them.
func (b *serviceBed) sends(to netip.AddrPort, bytes int) {
	b.t.Helper()
	pair := b.open("a", "b", to)
	stopping := make(chan struct{})
	var sending sync.WaitGroup
	sending.Go(func() {
		ticks := time.NewTicker(steadyEvery)
		defer ticks.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-ticks.C:
				_, _ = pair.out.Write(make([]byte, bytes)) // an error of one packet is a lost packet
			}
		}
	})
	b.t.Cleanup(func() {
		close(stopping)
		sending.Wait()
	})
}

// TestLongAlarmsByMail: a flow that is lost whole while another arrives, and another path, are notified of by webhook
// and by e-mail.
func TestLongAlarmsByMail(t *testing.T) {
	config := filepath.Join(t.TempDir(), "server.yaml")
	if err := os.WriteFile(config, []byte(pathRules), 0o600); err != nil {
		t.Fatal(err)
	}
	b := service(t, strings.Replace(detour, "service: {server: noc, ", fmt.Sprintf("service: {server: noc, options: [--config, %q], ", config), 1))
	b.talkative("r1", "r2", "r3", "r4", "b")
	webhooks, mails := receiver.New(), receiver.New()
	t.Cleanup(webhooks.Close)
	t.Cleanup(mails.Close)
	b.do(b.server, func() error {
		if err := webhooks.Listen(9099, webhooks.ServeWebhooks); err != nil {
			return err
		}
		return mails.Listen(9025, mails.ServeMail)
	})
	const far = "10.77.4.2" // of b, behind r3
	b.sends(netip.MustParseAddrPort(far+":9000"), 100)
	b.sends(netip.MustParseAddrPort(far+":9001"), 600)
	b.running("s", "--from", "a", "--to", "b", "--trace", "5s")
	b.atLeast(2, "SELECT count(DISTINCT dport) FROM flows WHERE dport IN (9000, 9001) AND packets > 10")
	b.atLeast(2, "SELECT count(*) FROM hops WHERE address = '%s'", far)
	b.exec("r1", "nft", largeOnly)
	heard := func(rule string) {
		t.Helper()
		eventually(t, "a webhook and an e-mail about "+rule, func() bool { return len(webhooks.Of(rule)) == 1 && len(mails.Of(rule)) == 1 })
	}
	heard("flow-silence")
	b.exec("r1", "nft", "delete table ip fault")
	b.exec("r1", "ip", "route", "replace", far+"/32", "via", "10.77.5.2")
	heard("path")
	if len(webhooks.Of("silence")) != 0 {
		t.Error("the pair counts as silent while one of its flows arrives")
	}
}
