package host

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// daemonTimeout bounds the wait for a hanging daemon.
const daemonTimeout = 2 * time.Second

// chronyTracking is the output of chronyc tracking: the state of the clock according to chronyd.
type chronyTracking struct {
	reference    string
	synchronised bool
	// systemOffset is the offset that chronyd is still correcting; lastOffset was measured at the last
	// clock update, positive if the clock was ahead.
	systemOffset, lastOffset, rmsOffset time.Duration
	frequencyPPM                        float64
	rootDelay, rootDispersion           time.Duration
}

// bound is the maximum clock error as chronyc(1) defines it, assuming that the time servers are right.
func (t chronyTracking) bound() time.Duration {
	return t.systemOffset.Abs() + t.rootDispersion + t.rootDelay/2
}

func askChrony(ctx context.Context) (chronyTracking, bool) {
	text, err := ask(ctx, "chronyc", "-c", "-n", "tracking")
	if err != nil {
		return chronyTracking{}, false
	}
	tracking, err := parseChrony(text)
	return tracking, err == nil
}

// ask runs a tool for at most daemonTimeout and returns its output, or an error if the tool is not installed.
func ask(ctx context.Context, tool string, arguments ...string) (string, error) {
	path, err := exec.LookPath(tool)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, daemonTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, path, arguments...)
	command.Env = append(os.Environ(), "LC_ALL=C")
	command.WaitDelay = time.Second
	text, err := command.Output()
	return string(text), err
}

// parseChrony parses the line of `chronyc -c tracking`: reference ID, name,
// stratum, time, system offset, last offset, RMS offset, frequency, residual
// frequency, skew, root delay, root dispersion, interval, leap status.
func parseChrony(text string) (chronyTracking, error) {
	reader := csv.NewReader(strings.NewReader(text))
	fields, err := reader.Read()
	if err != nil {
		return chronyTracking{}, fmt.Errorf("parse tracking of chrony: %w", err)
	}
	if len(fields) < 14 {
		return chronyTracking{}, fmt.Errorf("parse tracking of chrony: %d fields, want 14", len(fields))
	}
	t := chronyTracking{
		reference:    fields[1],
		synchronised: fields[13] != "Not synchronised",
	}
	if t.reference == "" {
		t.reference = fields[0]
	}
	for _, field := range []struct {
		at   int
		into *time.Duration
	}{{4, &t.systemOffset}, {5, &t.lastOffset}, {6, &t.rmsOffset}, {10, &t.rootDelay}, {11, &t.rootDispersion}} {
		value, e := strconv.ParseFloat(fields[field.at], 64)
		duration, e2 := seconds(value)
		err = errors.Join(err, e, e2)
		*field.into = duration
	}
	frequency, e := strconv.ParseFloat(fields[7], 64)
	if err = errors.Join(err, e); err == nil && (math.IsNaN(frequency) || math.IsInf(frequency, 0)) {
		err = fmt.Errorf("frequency %v", frequency)
	}
	if err != nil {
		return chronyTracking{}, fmt.Errorf("parse tracking of chrony: %w", err)
	}
	t.frequencyPPM = frequency
	return t, nil
}

// seconds converts a value in s. It rejects values above 10^9 s, so that sums of several durations do not overflow.
func seconds(value float64) (time.Duration, error) {
	const most = 1e9
	if !(math.Abs(value) <= most) {
		return 0, fmt.Errorf("clock offset of %v s is out of range", value)
	}
	return time.Duration(math.Round(value * 1e9)), nil
}

// ptpStatus has fields of ptp4l's management message TIME_STATUS_NP (pmc(8)).
type ptpStatus struct {
	offset      time.Duration // from the master
	present     bool          // there is a grandmaster
	grandmaster string
}

// ptpSocket is ptp4l's unprivileged management socket.
const ptpSocket = "/var/run/ptp4lro"

func askPTP(ctx context.Context) (ptpStatus, bool) {
	if _, err := os.Stat(ptpSocket); err != nil {
		return ptpStatus{}, false
	}
	text, err := ask(ctx, "pmc", "-u", "-b", "0", "-s", ptpSocket, "GET TIME_STATUS_NP")
	if err != nil {
		return ptpStatus{}, false
	}
	status, err := parsePTP(text)
	return status, err == nil
}

// parsePTP parses the output of pmc: lines with a name and a value, the offset in ns.
func parsePTP(text string) (ptpStatus, error) {
	values := map[string]string{}
	for line := range strings.Lines(text) {
		if words := strings.Fields(line); len(words) == 2 {
			values[words[0]] = words[1]
		}
	}
	offset, err := strconv.ParseInt(values["master_offset"], 10, 64)
	if err != nil || offset == math.MinInt64 {
		return ptpStatus{}, fmt.Errorf("parse status of ptp4l: master_offset is %q", values["master_offset"])
	}
	return ptpStatus{
		offset: time.Duration(offset), present: values["gmPresent"] == "true", grandmaster: values["gmIdentity"],
	}, nil
}
