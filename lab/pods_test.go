package lab_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pillion.dev/internal/test/kubernetestest"
)

// cluster starts an API server of Kubernetes on the loopback of each host, with one pod, NAMESPACE/NAME, that
// has the host's address. Agents read what they need from the folder.
func (b *serviceBed) cluster(folder string, pods map[string][2]string) map[string]*kubernetestest.API {
	b.t.Helper()
	apis := map[string]*kubernetestest.API{}
	for host, pod := range pods {
		var listener net.Listener
		b.do(host, func() (err error) {
			listener, err = net.Listen("tcp", "127.0.0.1:6443")
			return err
		})
		apis[host] = kubernetestest.Serve(b.t, listener, folder)
		namespace, name, _ := strings.Cut(pod[0], "/")
		apis[host].Put(pod[0], kubernetestest.Pod(namespace, name, "", pod[1]))
	}
	return apis
}

// podsOf returns the pods at both ends of the flows from a to b, each with a question mark if it no longer has
// its address.
func (b *serviceBed) podsOf(arguments ...string) (string, error) {
	output, err := b.tryPillion(append([]string{"flows", "-o", "json"}, arguments...)...)
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	type pod struct {
		Namespace, Name, Node string
		Held                  bool
	}
	var flows []struct {
		Src *pod `json:"src_pod"`
		Dst *pod `json:"dst_pod"`
	}
	if err := json.Unmarshal([]byte(output), &flows); err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	text := func(p *pod) string {
		switch {
		case p == nil:
			return "-"
		case !p.Held:
			return p.Namespace + "/" + p.Name + "?"
		}
		return p.Namespace + "/" + p.Name
	}
	for _, flow := range flows {
		return text(flow.Src) + " " + text(flow.Dst), nil
	}
	return "", nil
}

// TestPods: flows are answered with the pods that have their addresses according to the Kubernetes API of each
// agent's node, which starts after the agents, and with what has changed since.
func TestPods(t *testing.T) {
	t.Parallel()                                    // it mostly waits
	folder, err := os.MkdirTemp("", "pillion-pods") // t.TempDir is not accessible to the unprivileged part of an agent
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(folder) })
		err = os.Chmod(folder, 0o755)
	}
	config := filepath.Join(folder, "agent.yaml")
	if err == nil {
		err = os.WriteFile(config, fmt.Appendf(nil, "node: %s\nkubernetes: {enabled: true, api: 'https://127.0.0.1:6443', token_file: %q, ca_file: %q}\n",
			kubernetestest.Node, filepath.Join(folder, kubernetestest.TokenFile), filepath.Join(folder, kubernetestest.CAFile)), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := service(t, strings.Replace(perfect, "service: {server: noc, ", fmt.Sprintf("service: {server: noc, agent_options: [--config, %q], ", config), 1))
	apis := b.cluster(folder, map[string][2]string{"a": {"shop/cart-0", firstIPv4.String()}, "b": {"shop/db-0", secondIPv4.String()}})
	b.steady(secondIPv4, 1)
	b.running("s", "--from", "a", "--to", "b", "--trace=-1s")
	pods := func(want string, arguments ...string) {
		t.Helper()
		last := ""
		eventually(t, "pods of flows: "+want, func() bool {
			got, err := b.podsOf(append(arguments, "--session", "s")...)
			if now := fmt.Sprint(got, " ", err); now != last {
				t.Log(now)
				last = now
			}
			return err == nil && got == want
		})
	}
	pods("shop/cart-0 shop/db-0")
	pods("shop/cart-0 shop/db-0", "--source", "a", "--destination", "b")
	pods("shop/cart-0 shop/db-0", "--source", "a", "--destination", "b", "--search", "CART-0")
	pods("", "--source", "b", "--destination", "b", "--search", "cart-0")
	apis["a"].Delete("shop/cart-0")
	apis["b"].Delete("shop/db-0")
	apis["b"].Put("shop/db-1", kubernetestest.Pod("shop", "db-1", "", secondIPv4.String()))
	pods("shop/cart-0? shop/db-1")
	// Labels of nodes select agents like those of their configuration.
	const zone = "topology.kubernetes.io/zone=z1"
	b.pillion("agents", "approve", "a", zone)
	b.running("z", "--from", zone, "--to", "b", "--trace=-1s")
	b.atLeast(1, "SELECT count(*) FROM flows WHERE session = 'z' AND source = 'a' AND agent = 'b'")
	for _, agent := range []string{"a", "b"} {
		b.atLeast(1, "SELECT count(*) FROM pods WHERE agent = '%s' AND node = '%s'", agent, kubernetestest.Node)
	}
}
