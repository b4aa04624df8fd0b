package server_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/pillionv1"
)

// hidden are the words of the hosts at the ends of a pair: values of their labels, addresses of their interfaces, and rows about them.
var hidden = regexp.MustCompile(`depot|"customer" ?:|"state":"(connected|away)"|192\.0\.2\.8`)

// hosts stand for words in requests: those of a host at the end of a pair, or of nobody.
var hosts = wording{
	"ELABEL": {"site=own-depot", "site=absent"}, "ESITE": {"own-depot", "absent"}, "END": {"own1", "missing"}, "ECUSTOMER": {"customer=own", "customer=absent"},
}

// aboutEnds are requests about a host at the end of a pair, by procedure.
var aboutEnds = map[string][]string{
	"AgentService/ListAgents":         {`{"label":"ELABEL"}`},
	"AgentService/GetAgent":           {`{"name":"END"}`},
	"DataService/Series":              {`{"stream":"clock","aggregates":[{"column":"by","function":"count"}],"where":{"agent":"END"},"by":["agent"]}`},
	"DataService/ListRows":            {`{"stream":"clock","where":{"agent":"END"}}`, `{"stream":"host","where":{"agent":"END"}}`, `{"stream":"interfaces","where":{"agent":"END"}}`, `{"stream":"events","where":{"about":"END"}}`},
	"FlowService/SiteMatrix":          {`{"hosts":{"source":"ESITE","destination":"ESITE"}}`},
	"FlowService/TrafficMatrix":       {`{"granularity":"label","label":"site"}`, `{"granularity":"label","label":"customer"}`},
	"TopologyService/GetTopology":     {`{"bySite":true,"openSites":["ESITE"]}`, `{"bySite":true,"columns":true}`},
	"TopologyService/GetRouterDelays": {`{"agent":"END"}`},
}

// TestEndsAreOnlyNames: a viewer of a pair learns the names of its hosts, and nothing else about them.
func TestEndsAreOnlyNames(t *testing.T) {
	s, _ := tenants(t)
	limited := s.scoped(t, "own1:own2")
	if _, text := s.call(t, "/pillion.v1.AgentService/ListAgents", limited.operator, `{}`); strings.ReplaceAll(text, " ", "") != `{"ends":["own1","own2"]}` {
		t.Errorf("agents %s", text)
	}
	within(t, "the sites are known", func() bool {
		_, text := s.call(t, "/pillion.v1.TopologyService/GetTopology", s.operator, `{}`)
		return strings.Contains(text, "own-depot")
	})
	for procedure := range procedures(t) {
		procedure = strings.TrimPrefix(procedure, "/pillion.v1.")
		for i, body := range append(guesses[procedure], aboutEnds[procedure]...) {
			asked := wording{}
			for name, words := range hosts {
				if strings.Contains(body, name) {
					asked[name] = words
				}
			}
			for name, words := range names {
				asked[name] = [2]string{words[0], words[0]}
			}
			var answers [2]string
			for which := range answers {
				status, text := s.call(t, "/pillion.v1."+procedure, limited.operator, asked.worded(body, which))
				answers[which] = fmt.Sprint(status, " ", asked.unworded(text, which))
			}
			if found := hidden.FindString(answers[0]); found != "" && procedure != "ServerService/BuildInfo" {
				t.Errorf("%s %s tells %q: %s", procedure, body, found, answers[0])
			}
			leaks(t, procedure+" "+body, answers[0])
			if i >= len(guesses[procedure]) && answers[0] != answers[1] {
				t.Errorf("%s %s: of a host at the end of a pair\n%s\nof nobody\n%s", procedure, body, answers[0], answers[1])
			}
		}
	}
	if _, text := s.call(t, "/pillion.v1.FlowService/ListFlows", limited.operator, `{}`); !strings.Contains(text, "192.0.2.7") {
		t.Errorf("flows of the pair: %s", text)
	}
	if rows, err := query(t.Context(), limited.client(t, limited.operator), "SELECT (SELECT count(*) FROM clock), (SELECT count(*) FROM flows)"); err != nil || fmt.Sprint(rows) != "[[int:0 int:1]]" {
		t.Errorf("rows %v, %v", rows, err)
	}
}

// TestReportDoesNotTellLabels: the selectors of a report choose by labels that the caller sees, or that its scope names, so that nobody
// learns a label from which pairs are reported.
func TestReportDoesNotTellLabels(t *testing.T) {
	s, _ := tenants(t)
	for _, test := range []struct {
		name          string
		scope, wanted string
		pairs         int
	}{
		{"all", "own1:own2", "*:*", 1},
		{"names", "own1:own2", "own1:own2", 1},
		{"a label of an end", "own1:own2", "site=own-depot:own2", 0},
		{"a label that the scope names", "customer=own:own2", "customer=own:*", 1},
		{"another one", "customer=own:own2", "site=own-depot:*", 0},
		{"a label of an agent in the scope", "customer=own", "site=own-depot", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			now, limited := time.Now(), s.scoped(t, test.scope)
			levels, err := limited.client(t, limited.operator).Flows.ServiceLevels(t.Context(), &pillionv1.ServiceLevelsRequest{
				From: timestamppb.New(now.Add(-time.Hour)), To: timestamppb.New(now.Add(time.Hour)), Scope: []string{test.wanted}, Outage: 0.2, Quantile: 0.99,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer levels.Close()
			pairs := 0
			for levels.Receive() {
				if levels.Msg().Level != nil {
					pairs++
				}
			}
			if levels.Err() != nil || pairs != test.pairs {
				t.Errorf("%d pairs, want %d; %v", pairs, test.pairs, levels.Err())
			}
		})
	}
}
