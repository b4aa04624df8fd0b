package server

import (
	"net"
	"os"

	"pillion.dev/internal/version"
	"pillion.dev/server/otlp"
	"pillion.dev/server/web"
)

// openExporter prepares the export of metrics, under the resource that semantic conventions describe: the instance
// is what Prometheus calls so, the address of the API.
func (s *server) openExporter() error {
	if s.config.OTLP.URL == "" {
		return nil
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	to, err := s.config.outbound()
	_, port, _ := net.SplitHostPort(s.listener.Addr().String())
	s.exporter = otlp.New(otlp.Options{
		Config: s.config.OTLP, Addresses: to, Gather: s.web.Gather, Scope: "pillion.dev/server", Version: version.Short(), Log: s.log,
		Resource: map[string]string{
			"service.name": "pillion-server", "service.version": version.Short(),
			"service.instance.id": net.JoinHostPort(host, port), "host.name": host,
		},
	})
	return err
}

// exporterFigures are the metrics of the export.
func (s *server) exporterFigures() []web.Figure {
	if s.exporter == nil {
		return nil
	}
	stats := s.exporter.Stats()
	return []web.Figure{
		{Name: "pillion_otlp_exported_points_total", Help: "Data points that the collector accepted.", Value: float64(stats.Points)},
		{Name: "pillion_otlp_rejected_points_total", Help: "Data points that the collector rejected.", Value: float64(stats.Rejected)},
		{Name: "pillion_otlp_dropped_points_total", Help: "Data points that were not delivered before the next export was due, which supersedes them.", Value: float64(stats.Dropped)},
		{Name: "pillion_otlp_failed_requests_total", Help: "Requests to the collector that failed, including those that were repeated.", Value: float64(stats.Failed)},
	}
}
