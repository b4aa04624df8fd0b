package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"pillion.dev/api/level"
	"pillion.dev/api/pillionv1"
)

// Of reports that do not say otherwise, as on the command line.
const (
	defaultOutage   = 0.2
	defaultQuantile = 0.99
)

// levelFormats are the files of service levels.
var levelFormats = map[string]struct {
	contentType string
	write       func(*level.Report, io.Writer) error
}{
	"csv":  {"text/csv; charset=utf-8; header=present", (*level.Report).WriteCSV},
	"html": {"text/html; charset=utf-8", (*level.Report).WriteHTML},
}

// serveLevels is ServiceLevels as a file, for the page and for curl: GET /service-levels?month=YYYY-MM&format=F, and scope
// (repeatable), session, and the shares, the quantile and the delay of ServiceLevelsRequest by their names.
func (f *flows) serveLevels(w http.ResponseWriter, r *http.Request) error {
	request, name, err := levelQuery(r.URL.Query())
	if err != nil {
		return err
	}
	report := &level.Report{Request: request}
	if err := f.serviceLevels(r.Context(), request, func(message *pillionv1.ServiceLevelsResponse) error {
		report.Add(message)
		return nil
	}); err != nil {
		return err
	}
	format := levelFormats[name]
	var file bytes.Buffer // of at most levelPairs rows
	if err := format.write(report, &file); err != nil {
		return fmt.Errorf("write service levels: %w", err)
	}
	w.Header().Set("Content-Type", format.contentType)
	w.Header().Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", "service-levels-"+request.GetFrom().AsTime().Format(level.MonthForm)+"."+name))
	_, err = w.Write(file.Bytes())
	return err
}

// levelQuery reads the query of a report, and the name of its format.
func levelQuery(query url.Values) (request *pillionv1.ServiceLevelsRequest, format string, err error) {
	request, format = &pillionv1.ServiceLevelsRequest{Outage: defaultOutage, Quantile: defaultQuantile, Scope: query["scope"]}, "html"
	for name, values := range query {
		value, err := values[len(values)-1], error(nil)
		switch name {
		case "scope":
		case "format":
			if format = value; levelFormats[value].write == nil {
				err = errors.New("use csv or html")
			}
		case "month":
			var month time.Time
			month, err = level.ParseMonth(value)
			request.From, request.To = timestamppb.New(month), timestamppb.New(month.AddDate(0, 1, 0))
		case "session":
			request.Session = value
		case "availability":
			request.Availability, err = strconv.ParseFloat(value, 64)
		case "outage":
			request.Outage, err = strconv.ParseFloat(value, 64)
		case "loss":
			request.Loss, err = strconv.ParseFloat(value, 64)
		case "quantile":
			request.Quantile, err = strconv.ParseFloat(value, 64)
		case "delay_ns":
			request.DelayNs, err = strconv.ParseInt(value, 10, 64)
		default:
			err = errors.New("unknown parameter; use month, format, scope, session, availability, outage, loss, quantile, delay_ns")
		}
		if err != nil {
			return nil, "", invalid(name, "read %.40s=%.40q: %w", name, value, err)
		}
	}
	if request.From == nil {
		return nil, "", invalid("month", "read month: name it as YYYY-MM, such as 2026-11")
	}
	return request, format, nil
}
