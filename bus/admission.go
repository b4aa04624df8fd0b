package bus

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// member is the one connection of an agent.
type member struct {
	connection uint64
	instance   string // of the agent's process
	remote     string
	since      time.Time
}

// refusal is a refused connection of a known agent. It may only ask for the reason:
// NATS itself has one error for all refusals.
type refusal struct{ reason error }

const (
	// waitingLimit is how many refused connections may wait for the reason at once;
	// more are closed without it.
	waitingLimit = 256
	waitingTime  = 3 * time.Second
	// quietTime is the interval at which the same refusal is logged.
	quietTime = time.Minute
)

// Check admits a connection: NATS calls it after the client's CONNECT.
func (e *Embedded) Check(c server.ClientAuthentication) bool {
	state := c.GetTLSConnectionState()
	if state == nil { // only in-process connections lack TLS
		return subtle.ConstantTimeCompare([]byte(c.GetOpts().Token), []byte(e.secret)) == 1
	}
	select {
	case <-e.ready:
	case <-time.After(handshakeTime):
		return false
	}
	if c.Kind() != server.CLIENT {
		return false
	}
	agent, err := e.options.Authorize(*state)
	if agent == "" || !ValidAgent(agent) {
		if err == nil {
			err = fmt.Errorf("invalid agent name %.64q", agent)
		}
		e.logRefusal("", c.RemoteAddress().String(), err)
		return false
	}
	if err == nil {
		err = e.standing(agent)
	}
	if err == nil {
		err = e.admit(c, agent)
	}
	// Again: Disconnect did not find an agent whose rights ended before it was a
	// member.
	if err == nil {
		if _, err = e.options.Authorize(*state); err != nil {
			e.leave(agent, c.GetID())
		}
	}
	if err != nil {
		e.logRefusal(agent, c.RemoteAddress().String(), err)
		return e.refuse(c, err)
	}
	c.RegisterUser(&server.User{
		Username: agent, ConnectionDeadline: state.PeerCertificates[0].NotAfter,
		Permissions: agentPermissions(agent, c.GetID()),
	})
	return true
}

const (
	// suspendFor is how long an agent that floods the server may not connect.
	suspendFor  = 30 * time.Second
	suspendMost = 4096
)

// suspension is an agent that may not connect for a while.
type suspension struct {
	until  time.Time
	reason error
}

// suspend disconnects an agent that floods the server. When it connects again it is told
// the reason.
func (e *Embedded) suspend(agent string, reason error) {
	now := time.Now()
	e.mu.Lock()
	for name, s := range e.suspended {
		if now.After(s.until) {
			delete(e.suspended, name)
		}
	}
	_, already := e.suspended[agent]
	if !already && len(e.suspended) < suspendMost {
		e.suspended[agent] = suspension{now.Add(suspendFor), reason}
	}
	e.mu.Unlock()
	if !already {
		e.log.Warn("agent suspended", "agent", agent, "for", suspendFor, "reason", oneLine(reason.Error()))
		e.Disconnect(agent)
	}
}

// standing returns why a suspended agent is refused.
func (e *Embedded) standing(agent string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s, found := e.suspended[agent]; found && time.Now().Before(s.until) {
		return fmt.Errorf("agent %q sends far more than it may and is suspended until %s: %w", agent, s.until.UTC().Format(time.RFC3339), s.reason)
	}
	return nil
}

// admit makes the connection the agent's only one. A reconnecting process replaces its
// old connection. Another process is refused while the old connection is up: otherwise
// two hosts with one identity would disconnect each other forever.
func (e *Embedded) admit(c server.ClientAuthentication, agent string) error {
	next := member{connection: c.GetID(), instance: c.GetOpts().Name, remote: c.RemoteAddress().String(), since: time.Now()}
	e.mu.Lock()
	old, found := e.members[agent]
	if found && old.connection != next.connection && old.instance != next.instance &&
		e.server.GetClient(old.connection) != nil {
		e.mu.Unlock()
		return fmt.Errorf("agent %q is already connected, from %s since %s; enrol this host under another name, "+
			"or wait %s if it is the same host", agent, old.remote, old.since.UTC().Format(time.RFC3339), pingEvery*(pingsOut+1))
	}
	e.members[agent] = next
	e.mu.Unlock()
	if found && old.connection != next.connection {
		_ = e.server.DisconnectClientByID(old.connection) // an error: it is closed already
	}
	return nil
}

func (e *Embedded) leave(agent string, connection uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.members[agent].connection == connection {
		delete(e.members, agent)
	}
}

// refuse admits the connection only to ask for the reason, and for a short time.
func (e *Embedded) refuse(c server.ClientAuthentication, reason error) bool {
	id := c.GetID()
	e.mu.Lock()
	full := len(e.refused) >= waitingLimit
	if !full {
		e.refused[id] = refusal{reason}
	}
	e.mu.Unlock()
	if full {
		return false
	}
	time.AfterFunc(waitingTime, func() { e.finish(id) })
	c.RegisterUser(&server.User{Username: "refused", Permissions: &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{connectionSubject(helloPrefix, id)}},
		Subscribe: &server.SubjectPermission{Allow: []string{connectionSubject(answerPrefix, id)}},
	}})
	return true
}

// finish closes a refused connection.
func (e *Embedded) finish(id uint64) {
	e.mu.Lock()
	_, found := e.refused[id]
	delete(e.refused, id)
	e.mu.Unlock()
	if found {
		_ = e.server.DisconnectClientByID(id) // an error: it is closed already
	}
}

// greet answers a connection that asks whether it is accepted. The reply goes to the
// subject of that connection, whatever reply subject the request has.
func (e *Embedded) greet(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, helloPrefix), 10, 64)
	if err != nil {
		return
	}
	if !e.greetings.take(m.Subject, 1, time.Now()) {
		return
	}
	e.mu.Lock()
	r, refused := e.refused[id]
	e.mu.Unlock()
	answer := reply(statusOK, nil)
	if refused {
		answer = reply(statusRefused, r.reason)
	}
	answer.Subject = connectionSubject(answerPrefix, id)
	err = e.client.PublishMsg(answer)
	if refused {
		if err = errors.Join(err, e.client.FlushTimeout(waitingTime)); err != nil {
			e.log.Debug("send reason of refusal", "error", err)
		}
		e.finish(id)
	}
}

// logRefusal logs a refusal, but not each of the following attempts.
func (e *Embedded) logRefusal(agent, remote string, reason error) {
	text := oneLine(reason.Error())
	key := agent + " " + text
	now := time.Now()
	e.mu.Lock()
	for old, when := range e.logged {
		if now.Sub(when) >= quietTime {
			delete(e.logged, old)
		}
	}
	_, known := e.logged[key]
	if !known && len(e.logged) < waitingLimit {
		e.logged[key] = now
	}
	e.mu.Unlock()
	if !known {
		e.log.Warn("bus connection refused", "agent", agent, "remote", remote, "reason", text)
		if agent != "" && e.options.Refused != nil {
			e.options.Refused(agent, remote, reason)
		}
	}
}

func connectionSubject(prefix string, id uint64) string { return prefix + strconv.FormatUint(id, 10) }

// agentPermissions are an agent's permissions. It answers control requests by the
// permission to respond once.
func agentPermissions(agent string, connection uint64) *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{
			dataSubject(agent, "*"), stateSubject(agent), connectionSubject(helloPrefix, connection),
		}},
		Subscribe: &server.SubjectPermission{Allow: []string{
			controlSubject(agent), pulseSubject(agent), inboxPrefix(agent) + ".>",
			connectionSubject(answerPrefix, connection),
		}},
		Response: &server.ResponsePermission{MaxMsgs: 1, Expires: answerExpires},
	}
}
