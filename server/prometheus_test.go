//go:build metrics

package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pillion.dev/internal/free"
	"pillion.dev/measure/histogram"
	"pillion.dev/server"
	"pillion.dev/server/otlp"
)

// metricsPrograms is where .ci/install metrics puts a current Prometheus and a collector; Debian's Prometheus is in PATH.
const metricsPrograms = "/usr/local/lib/pillion/metrics/"

// freeAddress is an unused port of this machine.
// launch runs a program until the test ends.
func launch(t *testing.T, program string, arguments ...string) {
	t.Helper()
	var log bytes.Buffer
	command := exec.Command(program, arguments...)
	command.Dir, command.Stdout, command.Stderr = t.TempDir(), &log, &log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); t.Failed() {
			t.Logf("%s %q: %v\n%s", program, arguments, err, &log)
		}
	})
}

// documentedConfig is a block of docs/reference/metrics.md with other addresses and paths, in a file.
func documentedConfig(t *testing.T, class string, replace ...string) string {
	t.Helper()
	text, err := os.ReadFile(metricsFile)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\n```yaml " + class + "\n(.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatalf("%s has no configuration %s", metricsFile, class)
	}
	config := string(block[1])
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(config, replace[i]) {
			t.Fatalf("the configuration %s has no %q", class, replace[i])
		}
		config = strings.ReplaceAll(config, replace[i], replace[i+1])
	}
	path := filepath.Join(t.TempDir(), class+".yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ask returns the values of an instant query to Prometheus, of a histogram its count; none while it does not answer.
func ask(t *testing.T, address, query string) (values []float64) {
	t.Helper()
	response, err := http.Get("http://" + address + "/api/v1/query?" + url.Values{"query": {query}}.Encode())
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct{ Value, Histogram [2]any }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || response.StatusCode == http.StatusServiceUnavailable {
		return nil
	}
	if answer.Status != "success" {
		t.Fatalf("%s: %s", query, answer.Error)
	}
	for _, one := range answer.Data.Result {
		text, _ := one.Value[1].(string)
		if histogram, is := one.Histogram[1].(map[string]any); is {
			text, _ = histogram["count"].(string)
		}
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		values = append(values, value)
	}
	return values
}

// TestPrometheusOfDebian: the earliest supported version accepts the documented configurations.
func TestPrometheusOfDebian(t *testing.T) {
	for _, class := range []string{"prometheus", "agent"} {
		arguments := []string{"check", "config", "--syntax-only", documentedConfig(t, class)}
		if class == "agent" {
			arguments = append(arguments, "--agent")
		}
		if out, err := exec.Command("promtool", arguments...).CombinedOutput(); err != nil {
			t.Errorf("configuration %s: %v\n%s", class, err, out)
		}
	}
}

// TestPrometheus: what Prometheus says of known delays is what the server says, with Debian's Prometheus and a
// current one, scraped, by OTLP through a collector, and by remote write, with the documented configurations; and
// the expressions of the dashboards have answers.
func TestPrometheus(t *testing.T) {
	current, debian, agent := free.Address(t), free.Address(t), free.Address(t)
	collector := free.Address(t)
	r, receiverURL := startReceiver(t)
	launch(t, metricsPrograms+"collector", "--config", documentedConfig(t, "collector", "0.0.0.0:4318", collector,
		"http://prometheus.example.net:9090/api/v1/otlp", "http://"+current+"/api/v1/otlp", "http://other.example.net:4318", receiverURL))
	s := startWith(t, t.TempDir()+"/data", server.Config{OTLP: otlp.Config{URL: "http://" + collector, Interval: time.Second}})
	sum := s.knownDelays(t)
	shown := s.shownDelay(t)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(s.token(t, "prometheus", "viewer")), 0o600); err != nil {
		t.Fatal(err)
	}
	scrape := []string{"noc.example.net:8470", s.welcome.HTTP, "/etc/prometheus/pillion-ca.crt", filepath.Join(s.folder, "ca.crt"), "/etc/prometheus/pillion.token", token, "15s", "1s"}
	native := append(scrape, "    static_configs:", "    scrape_native_histograms: true\n    static_configs:") // as a current one needs it
	data := func() string { return "--storage.tsdb.path=" + t.TempDir() }
	launch(t, metricsPrograms+"prometheus", "--config.file", documentedConfig(t, "prometheus", native...), data(),
		"--web.listen-address="+current, "--web.enable-otlp-receiver", "--web.enable-remote-write-receiver")
	launch(t, "/usr/bin/prometheus", "--config.file", documentedConfig(t, "prometheus", scrape...), data(),
		"--web.listen-address="+debian, "--enable-feature=native-histograms")
	launch(t, metricsPrograms+"prometheus", "--agent", "--config.file", documentedConfig(t, "agent", append(native, "http://prometheus.example.net:9090/api/v1/write", "http://"+current+"/api/v1/write")...),
		"--storage.agent.path="+t.TempDir(), "--web.listen-address="+agent)

	for _, test := range []struct{ name, address, selector string }{
		{"scraped", current, `{job="pillion", written=""}`},
		{"scraped by Debian's", debian, `{job="pillion"}`},
		{"by OTLP through a collector", current, `{job="pillion-server"}`},
		{"by remote write", current, `{job="pillion", written="remotely"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			delay := "pillion_delay_seconds" + test.selector
			within(t, "Prometheus has the delays", func() bool {
				got := ask(t, test.address, "histogram_count("+delay+")")
				return len(got) == 1 && got[0] == float64(sum.Delay.Count)
			})
			if got := ask(t, test.address, "histogram_sum("+delay+")"); len(got) != 1 || math.Abs(got[0]-sum.Delay.Total.ToFloat64(0)/1e9) > 1e-9 {
				t.Errorf("sum %v, want %v ns", got, sum.Delay.Total.ToFloat64(0))
			}
			for q, want := range map[float64]float64{0.5: shown.P50Ns, 0.9: shown.P90Ns, 0.99: shown.P99Ns} {
				got := ask(t, test.address, fmt.Sprintf("histogram_quantile(%v, %s)", q, delay))
				if len(got) != 1 || math.Abs(got[0]*1e9/want-1) > histogram.ExponentialError {
					t.Errorf("quantile %v is %v, the server's own figure %v ns", q, got, want)
				} else {
					t.Logf("quantile %v: %.6f s, the server's own figure %.6f s, difference %+.2f %%", q, got[0], want/1e9, 100*(got[0]*1e9/want-1))
				}
			}
			for name, want := range map[string]uint64{"packets": sum.Packets, "bytes": sum.Bytes, "lost_packets": sum.Lost, "reordered_packets": sum.Reordered} {
				if got := ask(t, test.address, "pillion_"+name+"_total"+test.selector); len(got) != 1 || got[0] != float64(want) {
					t.Errorf("%s: %v, want %d", name, got, want)
				}
			}
		})
	}
	within(t, "the collector passes metrics on", func() bool { return r.metric("pillion.delay") != nil })
	compareExported(t, r, sum, shown)
	checkDashboards(t, current)
}

// checkDashboards checks the schema of the dashboards of Grafana and asks Prometheus for each expression.
func checkDashboards(t *testing.T, address string) {
	t.Helper()
	files, err := filepath.Glob("../dist/grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	var complaint bytes.Buffer
	command := exec.Command(metricsPrograms+"dashboard", files...)
	command.Stderr = &complaint
	text, err := command.Output()
	if err != nil {
		t.Fatalf("check dashboards: %v: %s", err, &complaint)
	}
	expressions := 0
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); expressions++ {
		var one struct {
			Panel, Expression string
			Metrics           []string
		}
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		if len(one.Metrics) == 0 {
			t.Errorf("%s: %s has no metric", one.Panel, one.Expression)
		}
		if strings.Contains(one.Expression, "receiver") || strings.Contains(one.Expression, "pillion_sessions") {
			continue // this server notifies nobody and has no session
		}
		within(t, one.Panel+" has an answer", func() bool { return len(ask(t, address, one.Expression)) > 0 })
	}
	if expressions < 20 {
		t.Errorf("%d expressions", expressions)
	}
}
