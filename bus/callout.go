package bus

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// ErrNoCallout is a cluster that does not ask servers whether an agent may connect: its
// configuration lists the users.
var ErrNoCallout = errors.New("the NATS cluster does not ask this server who may connect")

// CalloutOptions of a Callout.
type CalloutOptions struct {
	// URL of the cluster. TLS has a certificate whose common name is CalloutName, System one
	// whose common name is SystemName.
	URL         string
	TLS, System *tls.Config
	// Secret is the same for all servers of the cluster; it makes the key with which they sign.
	Secret []byte
	// Authorize returns the agent of a connection, as in EmbeddedOptions.
	Authorize func(tls.ConnectionState) (agent string, err error)
	// Leaf returns the agents for which a leaf may speak, by the certificate that it presents;
	// AnyAgent among them: for all.
	Leaf func(tls.ConnectionState) (agents []string, err error)
	// Refused, if set, is called when a connection of a known agent was refused.
	Refused func(agent, remote string, reason error)
	Log     *slog.Logger
}

// Callout answers a cluster's questions whether agents may connect, and disconnects them.
type Callout struct {
	options CalloutOptions
	log     *slog.Logger
	key     nkeys.KeyPair
	conn    *nats.Conn
	system  *nats.Conn
	running sync.WaitGroup
}

// Accounts of a cluster that asks, and common names of a server's certificates for two of them; no
// agent's name has a dot.
const (
	CalloutName = "auth.pillion"
	SystemName  = "system.pillion"

	account        = "PILLION" // of agents and servers
	calloutAccount = "AUTH"
	systemAccount  = "SYS"

	calloutSubject = "$SYS.REQ.USER.AUTH"
	calloutTime    = 5 * time.Second
	connectionsMax = 1024
)

// calloutKey derives the account key that signs answers.
func calloutKey(secret []byte) (nkeys.KeyPair, error) {
	seed := sha256.Sum256(append([]byte("pillion auth callout "), secret...))
	encoded, err := nkeys.EncodeSeed(nkeys.PrefixByteAccount, seed[:])
	if err != nil {
		return nil, err
	}
	return nkeys.FromSeed(encoded)
}

// calloutIssuer is the public part of that key.
func calloutIssuer(secret []byte) (string, error) {
	key, err := calloutKey(secret)
	if err != nil {
		return "", err
	}
	return key.PublicKey()
}

// ServeCallout begins to answer; ErrNoCallout if the cluster does not ask.
func ServeCallout(ctx context.Context, options CalloutOptions) (*Callout, error) {
	c := &Callout{options: options, log: options.Log}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	var err error
	if c.key, err = calloutKey(options.Secret); err != nil {
		return nil, fmt.Errorf("answer who may connect: %w", err)
	}
	if c.conn, err = c.connect(ctx, options.TLS); err == nil {
		if c.system, err = c.connect(ctx, options.System); err == nil {
			_, err = c.conn.QueueSubscribe(calloutSubject, serverQueue, func(m *nats.Msg) { c.running.Go(func() { c.answer(m) }) })
		}
		if err == nil {
			err = c.conn.FlushTimeout(closeTime)
		}
	}
	if errors.Is(err, nats.ErrAuthorization) {
		err = ErrNoCallout
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("answer who may connect: %w", err)
	}
	return c, nil
}

func (c *Callout) connect(ctx context.Context, config *tls.Config) (*nats.Conn, error) {
	s := Server{options: ServerOptions{URL: c.options.URL, TLS: config}, log: c.log}
	return s.connect(ctx, nil)
}

// Close ends the answers. Agents that are connected stay so.
func (c *Callout) Close() {
	for _, conn := range []*nats.Conn{c.conn, c.system} {
		if conn != nil {
			conn.Close()
		}
	}
	c.running.Wait()
}

// answer decides about one connection.
func (c *Callout) answer(m *nats.Msg) {
	request, err := jwt.DecodeAuthorizationRequestClaims(string(m.Data))
	if err != nil {
		c.log.Warn("read question who may connect", "error", err)
		return
	}
	user, refusal := c.user(request)
	response := jwt.NewAuthorizationResponseClaims(request.UserNkey)
	response.Audience = request.Server.ID
	if refusal != nil {
		c.log.Warn("bus connection refused", "remote", request.ClientInformation.Host, "reason", oneLine(refusal.Error()))
		response.Error = oneLine(refusal.Error())
	} else {
		response.Jwt = user
	}
	text, err := response.Encode(c.key)
	if err == nil {
		err = m.Respond([]byte(text))
	}
	if err != nil {
		c.log.Warn("answer who may connect", "error", err)
	}
}

// user returns the signed user of a connection, or why it is refused.
func (c *Callout) user(request *jwt.AuthorizationRequestClaims) (string, error) {
	state, err := presented(request.TLS)
	if err != nil {
		return "", err
	}
	expires := state.PeerCertificates[0].NotAfter
	if leaf, is := LeafOf(state.PeerCertificates[0].Subject.CommonName); is {
		agents, err := c.options.Leaf(state)
		if err != nil {
			return "", err
		}
		return leafUser(leaf, agents, request.UserNkey, expires).Encode(c.key)
	}
	agent, err := c.options.Authorize(state)
	if err == nil && !ValidAgent(agent) {
		err = fmt.Errorf("invalid agent name %.64q", agent)
	}
	if err != nil {
		if agent != "" && c.options.Refused != nil {
			c.options.Refused(agent, request.ClientInformation.Host, err)
		}
		return "", err
	}
	return agentUser(agent, request.UserNkey, expires).Encode(c.key)
}

// agentUser is the user of an agent, with its permissions.
func agentUser(agent, nkey string, expires time.Time) *jwt.UserClaims {
	user := newUser(agent, nkey, expires)
	user.AllowedConnectionTypes.Add(jwt.ConnectionTypeStandard)
	user.Pub.Allow.Add(agentPublishes(agent)...)
	user.Sub.Allow.Add(agentSubscribes(agent)...)
	user.Subs = subscriptions
	return user
}

func newUser(name, nkey string, expires time.Time) *jwt.UserClaims {
	user := jwt.NewUserClaims(nkey)
	user.Name, user.Audience, user.Expires = name, account, expires.Unix()
	user.Resp = &jwt.ResponsePermission{MaxMsgs: 1, Expires: answerExpires}
	return user
}

// presented is the TLS state that Authorize needs: the certificates that the client has
// presented. That the client has their key, the node has verified.
func presented(client *jwt.ClientTLS) (state tls.ConnectionState, err error) {
	if client == nil {
		return state, errors.New("connection without TLS")
	}
	chain := client.Certs
	if len(client.VerifiedChains) != 0 {
		chain = client.VerifiedChains[0]
	}
	for _, text := range chain {
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			return state, errors.New("read certificate: not PEM")
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return state, fmt.Errorf("read certificate: %w", err)
		}
		state.PeerCertificates = append(state.PeerCertificates, certificate)
	}
	if len(state.PeerCertificates) == 0 {
		return state, errors.New("connection without a certificate")
	}
	return state, nil
}

// openConnections is a node's answer to the question for connections.
type openConnections struct {
	Server struct {
		ID string `json:"id"`
	} `json:"server"`
	Data struct {
		Connections []struct {
			ID uint64 `json:"cid"`
		} `json:"connections"`
	} `json:"data"`
}

// Disconnect closes the connections of an agent on all nodes. It may reconnect if Authorize
// permits.
func (c *Callout) Disconnect(agent string) {
	c.running.Go(func() {
		if err := c.disconnect(agent); err != nil {
			c.log.Warn("disconnect agent", "agent", agent, "error", err)
		}
	})
}

func (c *Callout) disconnect(agent string) error {
	question, err := json.Marshal(map[string]any{"user": agent, "auth": true, "limit": connectionsMax})
	if err != nil {
		return err
	}
	inbox, err := c.system.SubscribeSync(c.system.NewRespInbox())
	if err != nil {
		return err
	}
	defer func() { _ = inbox.Unsubscribe() }() // fails only on a closed connection
	if err := c.system.PublishRequest("$SYS.REQ.SERVER.PING.CONNZ", inbox.Subject, question); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), calloutTime)
	defer cancel()
	for {
		m, err := inbox.NextMsgWithContext(ctx)
		if ctx.Err() != nil {
			return nil // all nodes that are there have answered
		}
		if err != nil {
			return err
		}
		var of openConnections
		if err := json.Unmarshal(m.Data, &of); err != nil {
			return fmt.Errorf("read connections: %w", err)
		}
		for _, one := range of.Data.Connections {
			kick, err := json.Marshal(map[string]uint64{"cid": one.ID})
			if err == nil { // without a reply subject the node ignores it; its reply has no connections
				err = c.system.PublishRequest("$SYS.REQ.SERVER."+of.Server.ID+".KICK", inbox.Subject, kick)
			}
			if err != nil {
				return err
			}
		}
	}
}
