package agent

import (
	"context"
	"fmt"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/measure"
)

// reportFlags select the collector of a tool's rows. The environment variables are OML's.
type reportFlags struct {
	OML       string `name:"oml" env:"OML_COLLECT,OML_SERVER" placeholder:"URI" help:"OMSP collector: [tcp:]HOST[:PORT], file:PATH or file:-."`
	OMLDomain string `name:"oml-domain" env:"OML_DOMAIN,OML_EXP_ID" default:"default" placeholder:"NAME" help:"Domain at the collector, with ?token=SECRET if it requires one (${default})."`
	OMLID     string `name:"oml-id" env:"OML_NAME" placeholder:"NAME" help:"Sender name at the collector; default: the host name."`
}

func (f reportFlags) open(uri, app string, points []*measure.Schema) (report.Report, error) {
	return report.Open(report.Options{URI: uri, App: app, Domain: f.OMLDomain, Sender: f.OMLID, Points: points})
}

// reportTime is the timeout for delivering the last rows to a collector.
const reportTime = 10 * time.Second

// finish waits for the collector, also after an interrupt.
func finish(r report.Report) error {
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	return r.Close(ctx)
}

// exitError ends this program with the exit code of another, which has printed the
// reason.
type exitError struct {
	code int
	text string
}

func (e exitError) Error() string { return fmt.Sprintf("iperf3 exited with %d%s", e.code, e.text) }
