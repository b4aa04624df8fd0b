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

// refusal is a connection of an agent that we know but will not have. It can do
// nothing but ask why: NATS itself has only one word for every refusal.
type refusal struct{ reason error }

const (
	// waitingLimit is how many refused connections may wait for the reason at a
	// time; more are closed without it.
	waitingLimit = 256
	waitingTime  = 3 * time.Second
	// quietTime is how long the same refusal is not logged again.
	quietTime = time.Minute
)

// Check admits a connection: NATS calls it when a client has introduced itself.
func (e *Embedded) Check(c server.ClientAuthentication) bool {
	state := c.GetTLSConnectionState()
	if state == nil { // TLS is missing only inside the process
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
			err = fmt.Errorf("%.64q is not an agent's name", agent)
		}
		e.logRefusal("", c.RemoteAddress().String(), err)
		return false
	}
	if err == nil {
		err = e.admit(c, agent)
	}
	// Asked again: rights that ended before the agent was a member, and so without
	// Disconnect finding it, end here.
	if err == nil {
		if _, err = e.options.Authorize(*state); err != nil {
			e.leave(agent, c.GetID())
		}
	}
	if err != nil {
		e.logRefusal(agent, c.RemoteAddress().String(), err)
		return e.turnAway(c, err)
	}
	c.RegisterUser(&server.User{
		Username: agent, ConnectionDeadline: state.PeerCertificates[0].NotAfter,
		Permissions: agentPermissions(agent, c.GetID()),
	})
	return true
}

// admit makes the connection the agent's one. The same process that comes again
// replaces its old connection. Another process is refused while the old connection
// lives: were the newer one to win, two hosts with one identity would throw each
// other out for ever.
func (e *Embedded) admit(c server.ClientAuthentication, agent string) error {
	next := member{connection: c.GetID(), instance: c.GetOpts().Name, remote: c.RemoteAddress().String(), since: time.Now()}
	e.mu.Lock()
	old, found := e.members[agent]
	if found && old.connection != next.connection && old.instance != next.instance &&
		e.server.GetClient(old.connection) != nil {
		e.mu.Unlock()
		return fmt.Errorf("agent %q is connected already, from %s since %s; give this host a name of its own, "+
			"or wait %s if it is the same", agent, old.remote, old.since.UTC().Format(time.RFC3339), pingEvery*(pingsOut+1))
	}
	e.members[agent] = next
	e.mu.Unlock()
	if found && old.connection != next.connection {
		_ = e.server.DisconnectClientByID(old.connection) // an error: it has gone
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

// turnAway lets the connection in only to hear the reason, and not for long.
func (e *Embedded) turnAway(c server.ClientAuthentication, reason error) bool {
	id := c.GetID()
	e.mu.Lock()
	full := len(e.turned) >= waitingLimit
	if !full {
		e.turned[id] = refusal{reason}
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

// finish closes a connection that was turned away.
func (e *Embedded) finish(id uint64) {
	e.mu.Lock()
	_, found := e.turned[id]
	delete(e.turned, id)
	e.mu.Unlock()
	if found {
		_ = e.server.DisconnectClientByID(id) // an error: it has gone
	}
}

// greet answers a connection that asks whether it is welcome. The answer goes to
// the subject of that connection, wherever else the asker wants it.
func (e *Embedded) greet(m *nats.Msg) {
	id, err := strconv.ParseUint(strings.TrimPrefix(m.Subject, helloPrefix), 10, 64)
	if err != nil {
		return
	}
	e.mu.Lock()
	r, refused := e.turned[id]
	e.mu.Unlock()
	answer := reply(statusOK, nil)
	if refused {
		answer = reply(statusRefused, r.reason)
	}
	answer.Subject = connectionSubject(answerPrefix, id)
	err = e.client.PublishMsg(answer)
	if refused {
		if err = errors.Join(err, e.client.FlushTimeout(waitingTime)); err != nil {
			e.log.Debug("tell the reason of a refusal", "error", err)
		}
		e.finish(id)
	}
}

// logRefusal says it once, not at each of the attempts that follow.
func (e *Embedded) logRefusal(agent, remote string, reason error) {
	text := oneLine(reason.Error())
	key := agent + " " + text
	now := time.Now()
	e.mu.Lock()
	for old, when := range e.told {
		if now.Sub(when) >= quietTime {
			delete(e.told, old)
		}
	}
	_, told := e.told[key]
	if !told && len(e.told) < waitingLimit {
		e.told[key] = now
	}
	e.mu.Unlock()
	if !told {
		e.log.Warn("refuse connection to the bus", "agent", agent, "remote", remote, "reason", text)
		if agent != "" && e.options.Refused != nil {
			e.options.Refused(agent, remote, reason)
		}
	}
}

func connectionSubject(prefix string, id uint64) string { return prefix + strconv.FormatUint(id, 10) }

// agentPermissions are all that an agent may do. It answers control requests by the
// right to reply once to what it was sent.
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
