package agent

import (
	"context"
	"fmt"
	"time"

	"pillion.dev/agent/report"
	"pillion.dev/measure"
)

// reportFlags say where a tool's rows go. The environment is OML's.
type reportFlags struct {
	OML       string `name:"oml" env:"OML_COLLECT,OML_SERVER" placeholder:"URI" help:"Collector of OMSP: [tcp:]HOST[:PORT], file:PATH or file:-."`
	OMLDomain string `name:"oml-domain" env:"OML_DOMAIN,OML_EXP_ID" default:"default" placeholder:"NAME" help:"Domain of the collector, with ?token=SECRET where it wants one (${default})."`
	OMLID     string `name:"oml-id" env:"OML_NAME" placeholder:"NAME" help:"Name of this end there; default the host's."`
}

func (f reportFlags) open(uri, app string, points []*measure.Schema) (report.Report, error) {
	return report.Open(report.Options{URI: uri, App: app, Domain: f.OMLDomain, Sender: f.OMLID, Points: points})
}

// reportTime is how long a collector may take for the last rows.
const reportTime = 10 * time.Second

// finish waits for the collector, also after an interrupt.
func finish(r report.Report) error {
	ctx, cancel := context.WithTimeout(context.Background(), reportTime)
	defer cancel()
	return r.Close(ctx)
}

// exitError ends this program with the code of another, which has said why.
type exitError struct {
	code int
	text string
}

func (e exitError) Error() string { return fmt.Sprintf("iperf3 ended with %d%s", e.code, e.text) }
