//go:build long

package server

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/bus"
	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/free"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
	"pillion.dev/measure/measuretest"
	"pillion.dev/server"
)

// TestLongSiteAggregates: the server of a site joins that of a fleet, which shows the pairs of the site by
// the names that its agents have there, once each, also after either was restarted.
func TestLongSiteAggregates(t *testing.T) {
	folder, site := t.TempDir(), t.TempDir()
	central := server.Config{Folder: folder, HTTP: free.Address(t), NATSListen: free.Address(t)}
	w, stop := commandtest.Serve(t, central)
	secret, err := os.ReadFile(w.AdminFile)
	if err != nil {
		t.Fatal(err)
	}
	client, err := api.NewClient(api.ClientOptions{Server: "https://" + w.HTTP, Token: strings.TrimSpace(string(secret)), Fingerprint: w.Fingerprint})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	made, err := client.Server.CreateToken(t.Context(), &pillionv1.CreateTokenRequest{Name: "paris", Role: "join", Site: "paris"})
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := client.Server.ListTokens(t.Context(), &pillionv1.ListTokensRequest{})
	if err != nil || !slices.ContainsFunc(tokens.Tokens, func(k *pillionv1.Token) bool { return k.Name == "paris" && k.Site == "paris" }) {
		t.Errorf("the list of tokens does not show the site: %v, %v", tokens, err)
	}
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(made.Secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := server.Config{Folder: site, Join: joinFleet, AggregateTo: server.Aggregate{
		Server: w.HTTP, TokenFile: tokenFile, Name: "paris-server", Window: time.Second, Lateness: time.Millisecond,
	}}
	atSite, stopSite := commandtest.Serve(t, config)
	north := join(t, atSite, "north")
	begin := time.Now().Add(-time.Minute).Truncate(time.Second)
	agent := connect(t, atSite, north)
	send := func(sequence uint64) {
		t.Helper()
		send(t, agent, flowsBatch(t, sequence, "south", begin.Add(time.Duration(sequence/3)*time.Second+500*time.Millisecond)))
	}
	packets := func() (n uint64) {
		answer, err := client.Flows.Windows(t.Context(), &pillionv1.WindowsRequest{
			Selection: &pillionv1.Selection{Source: "paris/south", Destination: "paris/north", Session: "s"},
		})
		if err != nil {
			return 0 // while it starts
		}
		for _, window := range answer.Windows {
			n += window.Packets
		}
		return n
	}
	for n := range uint64(9) {
		send(n)
	}
	until(t, "the pair of the site is shown", func() bool { return packets() == 90 })
	stop() // meanwhile the site goes on
	for n := range uint64(9) {
		send(9 + n)
	}
	stopSite()
	atSite, stopSite = commandtest.Serve(t, config)
	w, _ = commandtest.Serve(t, central)
	agent = connect(t, atSite, north)
	for n := range uint64(9) {
		send(18 + n)
	}
	until(t, "all rows of the pair have arrived", func() bool { return packets() >= 270 })
	agents, err := client.Agents.ListAgents(t.Context(), &pillionv1.ListAgentsRequest{})
	if err != nil || len(agents.Agents) != 1 || agents.Agents[0].Site != "paris" || agents.Agents[0].Name != "paris-server" {
		t.Errorf("agents of the fleet: %v, %v", agents, err)
	}
	// No other agent sends rows for the site, nor for an agent of the fleet.
	ordinary := connect(t, w, join(t, w, "ordinary"))
	for _, name := range []string{"north", "ordinary"} {
		if err := ordinary.SendFor(t.Context(), name, flowsBatch(t, 0, "south", begin)); !errors.Is(err, bus.ErrRefused) {
			t.Errorf("an ordinary agent sends for %s: %v", name, err)
		}
	}
	stopSite()
	if n := packets(); n != 270 {
		t.Errorf("%d packets arrived, want 270", n)
	}
}

// flowsBatch is a batch of one second of a pair, with 10 packets of 1 ms.
func flowsBatch(t *testing.T, sequence uint64, source string, end time.Time) measure.Envelope {
	t.Helper()
	row := flows.Row{End: end, Interval: time.Second, Session: "s", Source: source, Flow: flows.Flow{Src: "10.0.0.1", Dst: "10.0.0.2", Proto: "udp"}}
	row.Packets, row.Expected, row.Lost = 10, 11, 1
	for range row.Packets {
		row.Delay.Add(1_000_000)
	}
	e, err := measure.Encode(measure.Key{Stream: measure.Flows.Name, Epoch: epoch, Sequence: sequence}, measuretest.Flows(t, row))
	if err != nil {
		t.Fatal(err)
	}
	return e
}
