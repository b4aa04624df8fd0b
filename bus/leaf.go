package bus

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
)

// Leaf is the configuration of a NATS server of a site, to which the agents of the site connect,
// and which has one connection to the hubs.
type Leaf struct {
	// Name of the site, different on each leaf and from the names of hubs.
	Name string
	// Listen is host:port for agents.
	Listen string
	// Hubs are host:port of the hubs' LeafListen. One is chosen at random; when the connection
	// ends, another.
	Hubs []string
	// Folder holds the leaf's files: NodeFile and AuthorityFile.
	Folder string
	// Secret is the hubs' secret. Only a key that verifies is derived from it and written.
	Secret []byte
}

// AnyAgent stands for all agents in the certificate of a leaf.
const AnyAgent = "*"

// leafSuffix ends the common name of a leaf's certificate; no agent's name has a dot.
const leafSuffix = ".leaf.pillion"

// LeafName is the common name of a leaf's certificate.
func LeafName(name string) string { return name + leafSuffix }

// LeafOf returns the leaf whose certificate has that common name.
func LeafOf(commonName string) (name string, is bool) {
	name, is = strings.CutSuffix(commonName, leafSuffix)
	return name, is && ValidAgent(name)
}

// Config is the text of the configuration file. The leaf asks the servers, by way of a hub, which
// agents may connect.
func (l *Leaf) Config() (string, error) {
	issuer, err := l.check()
	if err != nil {
		return "", fmt.Errorf("configure leaf %.70q: %w", l.Name, err)
	}
	var b strings.Builder
	writeServer(&b, "The NATS server of a site for Pillion", l.Name, l.Listen, l.Folder)
	var urls []string
	for _, hub := range l.Hubs {
		urls = append(urls, "tls://"+hub)
	}
	// NATS wants a user that it does not ask for: the leaf itself, without any rights.
	own := "CN=" + LeafName(l.Name)
	fmt.Fprintf(&b, "\naccounts { %s { users: [ { user: %q, permissions: { publish: { deny: \">\" }, subscribe: { deny: \">\" } } } ] } }\n", account, own)
	fmt.Fprintf(&b, "leafnodes {\n  reconnect: %q\n  remotes: [ { account: %s, urls: %s, tls { %s, timeout: %.0f } } ]\n}\n",
		leafReconnect, account, list(urls), nodeTLS(l.Folder), handshakeTime.Seconds())
	fmt.Fprintf(&b, "\n# Each client is an agent: a pillion-server says whether it may connect.\n"+
		"authorization {\n  timeout: %.0f\n  auth_callout { issuer: %s, account: %s, auth_users: %s }\n}\n",
		handshakeTime.Seconds(), issuer, account, list([]string{own}))
	return b.String(), nil
}

// leafReconnect is between two attempts of a leaf to connect to a hub.
const leafReconnect = time.Second

// check returns the key that signs who may connect.
func (l *Leaf) check() (issuer string, err error) {
	if len(l.Hubs) == 0 {
		return "", errors.New("no hubs")
	}
	if err := checkNode(l.Name, append([]string{l.Listen}, l.Hubs...)); err != nil {
		return "", err
	}
	return calloutIssuer(l.Secret)
}

// leafUser is the user of a leaf at a hub. It may do what its agents may, answer requests, the
// subject of which it cannot guess, and ask who may connect.
func leafUser(name string, agents []string, nkey string, expires time.Time) *jwt.UserClaims {
	user := newUser(LeafName(name), nkey, expires)
	user.AllowedConnectionTypes.Add(jwt.ConnectionTypeLeafnode)
	user.Pub.Allow.Add(calloutSubject, askPrefix+"*.*")
	user.Sub.Allow.Add(calloutReplies)
	if slices.Contains(agents, AnyAgent) {
		agents = []string{AnyAgent}
		user.Sub.Deny.Add(serverInbox + ".>")
	}
	for _, agent := range agents {
		user.Pub.Allow.Add(dataSubject(agent, "*"), stateSubject(agent)) // the hub maps them
		user.Sub.Allow.Add(agentSubscribes(agent)...)
	}
	return user
}

// calloutReplies are the subjects at which NATS servers wait for answers.
const calloutReplies = "$SYS._INBOX.*.*"
