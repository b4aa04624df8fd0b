package bus

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
)

// Hub is the configuration of a node of an external NATS cluster for Pillion.
type Hub struct {
	// Name of the node, different on each.
	Name string
	// Listen, ClusterListen and LeafListen are host:port for clients, for other nodes, and for the
	// leaves of sites; without LeafListen there are no leaves.
	Listen, ClusterListen, LeafListen string
	// Routes are host:port of the other nodes' ClusterListen; empty: a single node.
	Routes []string
	// Folder holds the node's files: NodeFile, AuthorityFile, and what JetStream stores.
	Folder string
	// Secret is CalloutOptions.Secret: servers say which agents may connect. Without one, Agents
	// may, each by a certificate with its name.
	Secret []byte
	Agents []string
}

// Files of a node besides its configuration.
const (
	// NodeFile has the certificate and the key of the node.
	NodeFile = "node.pem"
	// AuthorityFile has the certificate of the authority.
	AuthorityFile = "ca.crt"
)

// ServerName is the common name of the certificates of pillion-servers on an external NATS
// cluster; no agent's name has a dot.
const ServerName = "server.pillion"

// NodeName is the common name of the certificates of hubs: agents and leaves have certificates of
// the same authority, and are no hubs.
const NodeName = "node.pillion"

// Config is the text of the configuration file. Nodes authenticate each other and their clients
// by certificates of the authority. pillion-servers may use all subjects, an agent its own.
func (h *Hub) Config() (string, error) {
	if err := h.check(); err != nil {
		return "", fmt.Errorf("configure NATS node %.70q: %w", h.Name, err)
	}
	var b strings.Builder
	writeServer(&b, "A node of a NATS cluster for Pillion", h.Name, h.Listen, h.Folder)
	tls := nodeTLS(h.Folder)
	fmt.Fprintf(&b, "jetstream { store_dir: %q }\n", filepath.Join(h.Folder, "jetstream"))
	if len(h.Routes) > 0 {
		var routes []string
		for _, route := range h.Routes {
			routes = append(routes, fmt.Sprintf("%q", "nats://"+route))
		}
		fmt.Fprintf(&b, "cluster {\n  name: pillion\n  listen: %q\n  tls { %s, verify_and_map: true }\n  authorization { user: %q }\n  routes: [%s]\n}\n",
			h.ClusterListen, tls, "CN="+NodeName, strings.Join(routes, ", "))
	}
	if h.LeafListen != "" {
		fmt.Fprintf(&b, "leafnodes {\n  listen: %q\n  tls { %s, verify: true, timeout: %.0f }\n  authorization { timeout: %.0f }\n  no_advertise: true\n  isolate_leafnode_interest: true\n}\n",
			h.LeafListen, tls, handshakeTime.Seconds(), handshakeTime.Seconds())
	}
	if h.Secret != nil {
		err := h.writeCallout(&b)
		return b.String(), err
	}
	fmt.Fprintf(&b, "\n%s\nauthorization { users: [\n%s", laneMappings, serverUser)
	for _, agent := range h.Agents {
		fmt.Fprintf(&b, "  { user: %q, permissions: {\n      publish: %s\n      subscribe: %s\n      allow_responses: { max: 1, expires: %q } } }\n",
			"CN="+agent, list(agentPublishes(agent)), list(agentSubscribes(agent)), answerExpires)
	}
	b.WriteString("] }\n")
	return b.String(), nil
}

var (
	laneMappings = fmt.Sprintf("# Each agent belongs to a lane, which one pillion-server holds at a time.\nmappings { %q: %q }\n", LaneMapping[0], LaneMapping[1])
	serverUser   = fmt.Sprintf("  { user: %q, permissions: { publish: \">\", subscribe: \">\", allow_responses: true } }\n", "CN="+ServerName)
)

// nodeTLS names the files of a node.
func nodeTLS(folder string) string {
	return fmt.Sprintf("cert_file: %[1]q, key_file: %[1]q, ca_file: %[2]q", filepath.Join(folder, NodeFile), filepath.Join(folder, AuthorityFile))
}

// writeServer writes what hubs and leaves have in common.
func writeServer(b *strings.Builder, what, name, listen, folder string) {
	fmt.Fprintf(b, "# %s, written by pillion-server nats.\nserver_name: %q\nlisten: %q\nmax_payload: %d\n", what, name, listen, MaxPayload+headerRoom)
	fmt.Fprintf(b, "tls { %s, verify_and_map: true, timeout: %.0f }\n", nodeTLS(folder), handshakeTime.Seconds())
	fmt.Fprintf(b, "ping_interval: %q\nping_max: %d\n", pingEvery, pingsOut)
}

// writeCallout writes accounts and users of a cluster that asks servers which agents may connect.
// The users of servers are mapped from their certificates: they can connect while no server
// answers.
func (h *Hub) writeCallout(b *strings.Builder) error {
	issuer, err := calloutIssuer(h.Secret)
	if err != nil {
		return fmt.Errorf("configure NATS node %.70q: %w", h.Name, err)
	}
	// Leaves ask through the account of agents. NATS tells a leaf of subscriptions to subjects all of
	// which it may use, and of mappings: hence the mapping of states.
	fmt.Fprintf(b, "\naccounts {\n%s {\n  jetstream: enabled\n  # Each agent belongs to a lane, which one pillion-server holds at a time.\n  mappings { %q: %q, %q: %q }\n  imports: [ { service: { account: %s, subject: %q } } ]\n  users: [\n%s  ]\n}\n",
		account, LaneMapping[0], LaneMapping[1], stateSubject("*"), stateSubject("{{wildcard(1)}}"), calloutAccount, calloutSubject, serverUser)
	fmt.Fprintf(b, "%s {\n  exports: [ { service: %q, accounts: [%s] } ]\n  users: [ { user: %q } ]\n}\n%s { users: [ { user: %q } ] }\n}\nsystem_account: %s\n",
		calloutAccount, calloutSubject, account, "CN="+CalloutName, systemAccount, "CN="+SystemName, systemAccount)
	fmt.Fprintf(b, "\n# Any other client is an agent: a pillion-server says whether it may connect.\n"+
		"authorization {\n  timeout: %.0f\n  auth_callout { issuer: %s, account: %s, auth_users: %s }\n}\n",
		handshakeTime.Seconds(), issuer, calloutAccount, list([]string{"CN=" + ServerName, "CN=" + CalloutName, "CN=" + SystemName}))
	return nil
}

// agentPublishes and agentSubscribes are the subjects of an agent on a cluster. Permissions are
// checked after the mapping.
func agentPublishes(agent string) []string {
	return []string{dataSubject(agent, "*"), laneSubject("*", agent, "*"), stateSubject(agent)}
}

func agentSubscribes(agent string) []string {
	return []string{controlSubject(agent), pulseSubject(agent), inboxPrefix(agent) + ".>"}
}

func list(texts []string) string {
	var quoted []string
	for _, text := range texts {
		quoted = append(quoted, fmt.Sprintf("%q", text))
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

func (h *Hub) check() error {
	addresses := append([]string{h.Listen}, h.Routes...)
	if len(h.Routes) > 0 {
		addresses = append(addresses, h.ClusterListen)
	}
	if h.LeafListen != "" {
		addresses = append(addresses, h.LeafListen)
		if h.Secret == nil {
			return errors.New("leaves need a cluster that asks servers who may connect")
		}
	}
	if err := checkNode(h.Name, addresses); err != nil {
		return err
	}
	if i := slices.IndexFunc(h.Agents, func(name string) bool { return !ValidAgent(name) }); i >= 0 {
		return fmt.Errorf("invalid agent name %.70q", h.Agents[i])
	}
	return nil
}

func checkNode(name string, addresses []string) error {
	if !ValidAgent(name) {
		return errors.New("use at most 63 lowercase letters, digits and inner hyphens for its name")
	}
	for _, address := range addresses {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return fmt.Errorf("address %.70q: want host:port", address)
		}
	}
	return nil
}
