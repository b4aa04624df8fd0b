package agent

import (
	"context"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/measure"
)

// ReportFlags select the collector of a tool's rows. The environment variables are OML's.
type ReportFlags struct {
	OML       string `name:"oml" env:"OML_COLLECT,OML_SERVER" placeholder:"URI" help:"OMSP collector: [tcp:]HOST[:PORT], file:PATH or file:-."`
	OMLDomain string `name:"oml-domain" env:"OML_DOMAIN,OML_EXP_ID" default:"default" placeholder:"NAME" help:"Domain at the collector, with ?token=SECRET if it requires one (${default})."`
	OMLID     string `name:"oml-id" env:"OML_NAME" placeholder:"NAME" help:"Sender name at the collector; default: the host name."`
}

// Open opens a report of an application with these points to a collector.
func (f ReportFlags) Open(uri, app string, points []*measure.Schema) (report.Report, error) {
	return report.Open(report.Options{URI: uri, App: app, Domain: f.OMLDomain, Sender: f.OMLID, Points: points})
}

// reportTime is the timeout for delivering the last rows to a collector.
const reportTime = 10 * time.Second

// Finish waits for the collector, also after an interrupt.
func Finish(r report.Report) error {
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	return r.Close(ctx)
}

// Exit ends this program with the exit code of another, which has printed the
// reason.
type Exit struct {
	Code int
	Text string
}

func (e Exit) Error() string { return e.Text }
