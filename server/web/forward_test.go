package web

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"pillion.dev/api/pillionv1"
	"pillion.dev/api/pillionv1/pillionv1connect"
	"pillion.dev/bus"
)

// fakeFleet is a fleet whose leader is one of the sites.
type fakeFleet struct {
	mutex  sync.Mutex
	own    *site
	leader *site
	fault  error
	calls  int
}

func (f *fakeFleet) Leads() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.leader == f.own
}

func (f *fakeFleet) Call(ctx context.Context, request []byte) ([]byte, error) {
	f.mutex.Lock()
	f.calls++
	leader, fault := f.leader, f.fault
	f.mutex.Unlock()
	if fault != nil {
		return nil, fault
	}
	if leader == nil {
		return nil, bus.ErrNoLeader
	}
	return leader.Answer(ctx, request), nil
}

func (f *fakeFleet) lead(leader *site, fault error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.leader, f.fault = leader, fault
}

// newFleet returns a leading server and one that follows it.
func newFleet(t *testing.T) (leader, follower *site, ofLeader, ofFollower *fakeFleet) {
	t.Helper()
	ofLeader, ofFollower = &fakeFleet{}, &fakeFleet{}
	leader = newSite(t, func(o *Options) { o.Fleet = ofLeader })
	follower = newSite(t, func(o *Options) { o.Fleet = ofFollower })
	ofLeader.own, ofFollower.own = leader, follower
	ofLeader.lead(leader, nil)
	ofFollower.lead(leader, nil)
	return leader, follower, ofLeader, ofFollower
}

// TestForward: whichever server and protocol, a call has the same result, and the leading server carries it
// out and records it once, with the user's token and address.
func TestForward(t *testing.T) {
	leader, follower, _, _ := newFleet(t)
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			client, url := follower.client(t, kind.transport)
			sessions := pillionv1connect.NewSessionServiceClient(client, url, append(kind.options, bearer("operator"))...)
			before := len(leader.sink.changes)
			created, err := sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{
				Spec: &pillionv1.SessionSpec{Name: "s1", Sources: []string{"a"}, Destinations: []string{"b"}},
			})
			if err != nil || created.Session.CreatedBy != "the-operator" || len(created.Warnings) != 1 {
				t.Fatalf("got %v, %v", created, err)
			}
			change := leader.sink.last(t)
			if len(leader.sink.changes) != before+1 || change.Token != "the-operator" || change.Remote != "127.0.0.1" || change.Outcome != "ok" {
				t.Errorf("recorded %+v", leader.sink.changes[before:])
			}
			_, err = sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{Spec: &pillionv1.SessionSpec{}})
			checkProblems(t, err)
			leader.ledger.sum(true) // the refusal is not like the one before
			refused := pillionv1connect.NewSessionServiceClient(client, url, append(kind.options, bearer("viewer"))...)
			if _, err = refused.DeleteSession(t.Context(), &pillionv1.DeleteSessionRequest{Name: "s1"}); connect.CodeOf(err) != connect.CodePermissionDenied {
				t.Errorf("a viewer deletes a session: %v", err)
			}
			if change = leader.sink.last(t); change.Token != "the-viewer" || !strings.HasPrefix(change.Outcome, "permission_denied") {
				t.Errorf("recorded %+v", change)
			}
		})
	}
	if len(follower.sink.changes) != 0 || len(follower.control.sessions) != 0 {
		t.Errorf("the follower carried out %v, recorded %v", follower.control.sessions, follower.sink.changes)
	}
	if n := follower.forwards.Load(); n != uint64(3*len(kinds)) || leader.answers.Load() != n {
		t.Errorf("%d calls were passed on, %d answered", n, leader.answers.Load())
	}
}

// TestFollowerAnswersItself: rows come from the server that is asked, and a wrong token is refused there.
func TestFollowerAnswersItself(t *testing.T) {
	_, follower, _, fleet := newFleet(t)
	for _, procedure := range []string{"DataService/ListStreams", "ServerService/WhoAmI", "TopologyService/GetTopology"} {
		if status, body := follower.post(t, "http1", "/pillion.v1."+procedure, "viewer", "{}"); status != http.StatusOK {
			t.Errorf("%s: status %d, %s", procedure, status, body)
		}
	}
	for range invalidTokens {
		if status, _ := follower.post(t, "http1", "/pillion.v1.AgentService/ListAgents", "guess", "{}"); status != http.StatusUnauthorized {
			t.Errorf("a wrong token: status %d", status)
		}
	}
	if status, _ := follower.post(t, "http1", "/pillion.v1.AgentService/ListAgents", "guess", "{}"); status != http.StatusTooManyRequests {
		t.Errorf("too many wrong tokens: status %d", status)
	}
	if fleet.calls != 0 {
		t.Errorf("%d of these calls were passed on", fleet.calls)
	}
}

// TestForwardEnrolment: a host joins and renews its certificate through any server, which alone sees its
// connection.
func TestForwardEnrolment(t *testing.T) {
	leader, follower, _, _ := newFleet(t)
	status, body := follower.post(t, "http1", "/pillion.v1.EnrolService/Enrol", "", `{"token":"join","name":"h1"}`)
	if status != http.StatusOK || leader.sink.last(t).Remote != "127.0.0.1" {
		t.Errorf("join: status %d, %s; recorded %+v", status, body, leader.sink.last(t))
	}
	client, url := follower.client(t, "tls")
	renew := func() (int, string) {
		t.Helper()
		request, err := http.NewRequest("POST", url+"/pillion.v1.EnrolService/Renew", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		return do(t, client, request)
	}
	if status, body = renew(); status != http.StatusUnauthorized || !strings.Contains(body, "no client certificate") {
		t.Errorf("renew without a certificate: status %d, %s", status, body)
	}
	client.Transport.(*http.Transport).CloseIdleConnections()
	certificate := newCertificate(t, "h1")
	client.Transport.(*http.Transport).TLSClientConfig.Certificates = append(client.Transport.(*http.Transport).TLSClientConfig.Certificates, certificate)
	if status, body = renew(); status != http.StatusOK || !strings.Contains(body, "Y2VydGlmaWNhdGUgb2YgaDE=") {
		t.Errorf("renew: status %d, %s", status, body)
	}
	for range invalidTokens + 1 {
		status, _ = follower.post(t, "http1", "/pillion.v1.EnrolService/Enrol", "", `{"token":"guess","name":"h"}`)
	}
	if status != http.StatusTooManyRequests {
		t.Errorf("too many wrong join tokens: status %d", status)
	}
}

// TestLeaderChanges: a call waits for a new leader, also if this server becomes it; one that was delivered
// and not answered is not repeated.
func TestLeaderChanges(t *testing.T) {
	leader, follower, ofLeader, ofFollower := newFleet(t)
	const procedure = "/pillion.v1.AgentService/ListAgents"
	for name, next := range map[string]*site{"another": leader, "this": follower} {
		ofFollower.lead(nil, nil)
		begun := ofFollower.calls
		answered := make(chan int, 1)
		go func() {
			status, _ := follower.post(t, "http1", procedure, "viewer", "{}")
			answered <- status
		}()
		for called := false; !called; {
			ofFollower.mutex.Lock()
			called = ofFollower.calls > begun
			ofFollower.mutex.Unlock()
			runtime.Gosched()
		}
		ofFollower.lead(next, nil)
		if status := <-answered; status != http.StatusOK {
			t.Errorf("%s server leads: status %d", name, status)
		}
	}
	ofFollower.lead(leader, errors.New("lost"))
	before := ofFollower.calls
	client, url := follower.client(t, "http1")
	request, err := http.NewRequest("POST", url+procedure, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer viewer")
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" || ofFollower.calls != before+1 {
		t.Errorf("the leader does not answer: status %d, header %v, %d calls", response.StatusCode, response.Header, ofFollower.calls-before)
	}
	// One that leads no longer neither answers nor passes on.
	ofLeader.lead(nil, nil)
	var answer forwardedAnswer
	message, err := packHead(forwarded{Method: "POST", Target: procedure, Proto: "HTTP/1.1",
		Header: http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer viewer"}}}, []byte("{}"))
	if err == nil {
		answer, _, err = unpackAnswer(leader.Answer(t.Context(), message))
	}
	if err != nil || answer.Status != statusNotLeading || ofLeader.calls != 0 {
		t.Errorf("a server that leads no longer: %+v, %v, %d calls", answer, err, ofLeader.calls)
	}
}

// TestPlaces: a stream is answered by the server that is asked, and only procedures of the leading server
// are carried out for another.
func TestPlaces(t *testing.T) {
	protoregistry.GlobalFiles.RangeFilesByPackage("pillion.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				method := methods.Get(j)
				procedure := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
				if (method.IsStreamingClient() || method.IsStreamingServer()) && roles[procedure].place != here {
					t.Errorf("%s: a stream is passed on", procedure)
				}
			}
		}
		return true
	})
	s := newSite(t)
	message, err := packHead(forwarded{Method: "GET", Target: "/metrics", Proto: "HTTP/1.1"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if answer, body, err := unpackAnswer(s.Answer(t.Context(), message)); err != nil || answer.Status != http.StatusNotFound {
		t.Errorf("/metrics of another server: %+v %s %v", answer, body, err)
	}
}

func FuzzUnpackForwarded(f *testing.F) {
	good, err := packHead(forwarded{Method: "POST", Target: "/x?y=1", Proto: "HTTP/2.0", Header: http.Header{"A": {"b"}}}, []byte("body"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, '{', '}'})
	f.Fuzz(func(t *testing.T, message []byte) {
		var head forwarded
		body, err := unpackHead(message, &head)
		if err != nil {
			return
		}
		if _, err := head.request(t.Context(), body); err == nil && !bytes.HasSuffix(message, body) {
			t.Errorf("body %q of %q", body, message)
		}
	})
}
