package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/cli/commandtest"
	"pillion.dev/internal/free"
)

// examplePage has the answers that this test got, for the page's test.
const examplePage = "../../ui/data/testdata/example-point.json"

// TestExamplePoint: a point that consists of a descriptor and a function is validated,
// planned, assigned, measured, archived and described to the page.
func TestExamplePoint(t *testing.T) {
	n := &noc{folder: t.TempDir(), http: free.Address(t), bus: free.Address(t)}
	n.begin(t)
	newHost(t, n, "north")
	newHost(t, n, "south")
	client := n.client(t)
	until(t, "both agents are connected", func() bool {
		answer, err := client.Agents.ListAgents(t.Context(), &pillionv1.ListAgentsRequest{})
		return err == nil && len(answer.Agents) == 2 && answer.Agents[0].State == "connected" && answer.Agents[1].State == "connected"
	})

	spec := &pillionv1.SessionSpec{Name: "try", Sources: []string{"north"}, Destinations: []string{"south"}, Trace: api.DurationMessage(-time.Second)}
	spec.Points = []*pillionv1.PointRequest{{Name: "example", Agents: []string{"unknown"}, Options: map[string]string{"count": "0"}}}
	plan, err := client.Sessions.PlanSession(t.Context(), &pillionv1.PlanSessionRequest{Spec: spec})
	if err != nil || len(plan.Problems) != 1 || plan.Problems[0].Field != "points[0].options[count]" {
		t.Fatalf("plan of an invalid option: %v, %v", plan.GetProblems(), err)
	}
	spec.Points = []*pillionv1.PointRequest{{Name: "example", Agents: []string{"north"}, Options: map[string]string{"count": "4"}}}
	created, err := client.Sessions.CreateSession(t.Context(), &pillionv1.CreateSessionRequest{Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if paths := created.Session.Spec.Points[0].Options["paths"]; paths != "both" {
		t.Errorf("default of paths: %q", paths)
	}

	rows := &pillionv1.ListRowsResponse{}
	until(t, "rows are in the archive", func() bool {
		rows, err = client.Data.ListRows(t.Context(), &pillionv1.ListRowsRequest{
			Stream: "example", Where: map[string]string{"session": "try"}, Columns: []string{"agent", "path", "packets", "delay_ns", "time"},
		})
		return err == nil && len(rows.Rows) == 8
	})
	until(t, "the task runs", func() bool {
		got, err := client.Sessions.GetSession(t.Context(), &pillionv1.GetSessionRequest{Name: "try"})
		for _, task := range got.GetSession().GetTasks() {
			if task.Role == "example" && task.Agent == "north" && task.Running && task.Counters["rows"] == 8 {
				return true
			}
		}
		return err != nil
	})
	series, err := client.Data.Series(t.Context(), &pillionv1.SeriesRequest{
		Stream: "example", Where: map[string]string{"session": "try"}, By: []string{"path"},
		Aggregates: []*pillionv1.Aggregate{{Column: "delay_ns", Function: "avg", Weight: "packets"}},
		From:       timestamppb.New(exampleStart), To: timestamppb.New(exampleStart.Add(4 * time.Second)), Points: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	points, err := client.Sessions.ListPoints(t.Context(), &pillionv1.ListPointsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range points.Points {
		if p.Name == "example" {
			comparePage(t, map[string]proto.Message{"point": p, "rows": rows, "series": series})
			return
		}
	}
	t.Errorf("ListPoints has no example: %v", points)
}

// comparePage compares the answers with the file that the page's test reads.
func comparePage(t *testing.T, answers map[string]proto.Message) {
	t.Helper()
	page := map[string]json.RawMessage{}
	for name, message := range answers {
		text, err := protojson.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		page[name] = text
	}
	text, err := json.MarshalIndent(page, "", "  ") // protojson varies its blanks, this does not
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, '\n')
	if *commandtest.Update {
		if err := os.WriteFile(examplePage, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(examplePage); err != nil || string(want) != string(text) {
		t.Errorf("%s differs from the answers (go test -update writes it): %v\n%s", examplePage, err, text)
	}
}

func (n *noc) client(t *testing.T) *api.Client {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(n.folder, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := api.NewClient(api.ClientOptions{
		Server: "https://" + n.welcome.HTTP, Token: strings.TrimSpace(string(token)), Fingerprint: n.welcome.Fingerprint, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
