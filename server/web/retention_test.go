package web

import (
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
	"pillion.dev/measure"
)

// TestRetentionOfRollUps: those of the archive are listed apart from its streams, and are limited by age only.
func TestRetentionOfRollUps(t *testing.T) {
	s := newSite(t)
	set := func(stream string, keep *pillionv1.Retention) (*pillionv1.SetRetentionResponse, error) {
		return s.rows(t, "admin").SetRetention(t.Context(), &pillionv1.SetRetentionRequest{Stream: stream, Retention: keep})
	}
	if _, err := set("flows_1m", nil); connect.CodeOf(err) != connect.CodeNotFound {
		t.Errorf("an archive without roll-ups: %v", err)
	}
	s.archive.rollUps = []archive.Stream{{Schema: &measure.Schema{Name: "flows_1m"}, Rows: 7, Retention: archive.Retention{Age: 31 * 24 * time.Hour}}}
	if _, err := set("flows_1m", &pillionv1.Retention{Rows: 9}); connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("a bound on rows: %v", err)
	}
	answer, err := set("flows_1m", &pillionv1.Retention{Age: durationpb.New(time.Hour)})
	if err != nil || answer.Stream.Name != "flows_1m" || answer.Stream.Retention.Age.AsDuration() != time.Hour {
		t.Errorf("got %v, %v", answer, err)
	}
	listed, err := s.rows(t, "viewer").ListStreams(t.Context(), &pillionv1.ListStreamsRequest{})
	if err != nil || len(listed.Streams) != 2 || len(listed.RollUps) != 1 || listed.RollUps[0].Rows != 7 || listed.RollUps[0].Retention.Age.AsDuration() != time.Hour {
		t.Errorf("got %v, %v", listed, err)
	}
}
