package kubernetes

import (
	"net/netip"
	"strings"
	"testing"

	api "pillion.dev/internal/test/kubernetestest"
)

func addressOf(t *testing.T, text string) netip.Addr {
	t.Helper()
	address, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

func TestPodOf(t *testing.T) {
	for _, row := range []struct{ name, text, want, fault string }{
		{"IPv4 and IPv6", api.Pod("n", "p", "", "10.0.0.1", "fd00::1"), "[10.0.0.1 fd00::1]", ""},
		{"mapped and twice", api.Pod("n", "p", "", "::ffff:10.0.0.1", "10.0.0.1"), "[10.0.0.1]", ""},
		{"loopback", api.Pod("n", "p", "", "127.0.0.1", "::"), "[]", ""},
		{"many", api.Pod("n", "p", "", strings.Fields(strings.Repeat("10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8 10.0.0.9 ", 2))...),
			"[10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5 10.0.0.6 10.0.0.7 10.0.0.8]", ""},
		{"no address", api.Pod("n", "p", "", "x"), "", `invalid address "x"`},
		{"zone", api.Pod("n", "p", "", "fe80::1%eth0"), "", "invalid address"},
		{"no name", api.Pod("n", "", ""), "", "invalid name"},
		{"markup", api.Pod("n", "<b>", ""), "", "invalid name"},
		{"long namespace", api.Pod(strings.Repeat("n", 64), "p", ""), "", "invalid name"},
	} {
		t.Run(row.name, func(t *testing.T) {
			e, err := parseEvent([]byte(`{"type":"ADDED","object":` + row.text + `}`))
			if err != nil {
				t.Fatal(err)
			}
			p, err := podOf(&e.object, api.Node)
			var got []string
			for _, address := range p.addresses {
				got = append(got, address.String())
			}
			if row.fault == "" && (err != nil || "["+strings.Join(got, " ")+"]" != row.want) || row.fault != "" && (err == nil || !strings.Contains(err.Error(), row.fault)) {
				t.Errorf("got %v, %v; want %s %s", got, err, row.want, row.fault)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "6443")
	c, err := Config{Enabled: true}.Complete("w1")
	if err != nil || c.API != "https://[fd00::1]:6443" || c.TokenFile != DefaultTokenFile || c.CAFile != DefaultCAFile || len(c.NodeLabels) != 2 {
		t.Errorf("defaults are %+v, %v", c, err)
	}
	if c, err := (Config{Enabled: true, NodeLabels: []string{}}).Complete("w1"); err != nil || len(c.NodeLabels) != 0 {
		t.Errorf("no labels: %+v, %v", c, err)
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, row := range []struct {
		config     Config
		node, want string
	}{
		{Config{}, "w1", "outside of a pod"},
		{Config{API: "https://k8s"}, "", `node ""`},
		{Config{API: "https://k8s"}, "w1/../..", "node"},
		{Config{API: "http://k8s"}, "w1", "https URL"},
		{Config{API: "https://user:word@k8s"}, "w1", "https URL"},
		{Config{API: "https://k8s", NodeLabels: []string{"a b"}}, "w1", "node_labels"},
		{Config{API: "https://k8s", NodeLabels: make([]string, 33)}, "w1", "33 keys"},
	} {
		row.config.Enabled = true
		if _, err := row.config.Complete(row.node); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v, node %q: %v, want %s", row.config, row.node, err, row.want)
		}
	}
}

// FuzzEvent: whatever a watch sends, a name that is passed on is valid.
func FuzzEvent(f *testing.F) {
	for _, text := range []string{
		`{"type":"ADDED","object":` + api.Pod("n", "p", "", "10.0.0.1") + `}`,
		`{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}`,
		`{"type":"ERROR","object":{"code":410,"message":"gone"}}`, `{"type":"ADDED"}`, `{"object":[]}`, "{", "",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		e, err := parseEvent(line)
		if err != nil || e.kind == failed {
			return
		}
		p, err := podOf(&e.object, api.Node)
		if err != nil {
			return
		}
		if !validName(p.Namespace, namespaceMax) || !validName(p.Name, nameMax) || len(p.addresses) > podAddressesMax {
			t.Errorf("%+v from %s", p, line)
		}
		var n names
		for _, name := range n.set(p) {
			if !name.Address.IsValid() || name.Address.Zone() != "" {
				t.Errorf("%v from %s", name, line)
			}
		}
	})
}
