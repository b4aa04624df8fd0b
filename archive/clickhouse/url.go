package clickhouse

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"pillion.dev/measure"
)

// location is what the URL of an archive says.
type location struct {
	hosts                    []string // with ports
	user, password, database string
	// reader is the user that runs users' statements; empty: user, in read-only mode.
	reader, readerPassword string
	// home is the database of connections; empty: the user's default.
	home string
	// cluster of system.clusters; empty: each host is a replica of nothing, only the first is used.
	cluster string
	// quorum is the number of replicas that must have a commit; 0: two, where there are two.
	quorum int
	// rollUp is as in Options.
	rollUp time.Duration
	tls    *tls.Config
}

const (
	defaultPort     = "9000"
	defaultTLSPort  = "9440"
	defaultDatabase = "pillion"
	defaultUser     = "default"
)

var errLocation = errors.New("use clickhouse://USER@HOST:PORT,HOST:PORT/DATABASE?cluster=NAME&password_file=PATH")

// parse reads the URL of an archive without its scheme.
func parse(text string) (*location, error) {
	// A URL has one host.
	authority, rest := strings.TrimPrefix(text, "//"), ""
	if i := strings.IndexAny(authority, "/?"); i >= 0 {
		authority, rest = authority[:i], authority[i:]
	}
	user, hosts, found := strings.Cut(authority, "@")
	if !found {
		user, hosts = "", authority
	}
	u, err := url.Parse("clickhouse://" + user + "@host" + rest)
	if err != nil || !strings.HasPrefix(text, "//") {
		// A URL may have a password, which errors of the parser would show.
		return nil, fmt.Errorf("parse URL of ClickHouse archive: %w", errLocation)
	}
	l := &location{user: cmp.Or(u.User.Username(), defaultUser), database: cmp.Or(strings.Trim(u.Path, "/"), defaultDatabase)}
	if _, given := u.User.Password(); given {
		return nil, errors.New("parse URL of ClickHouse archive: a password in the URL would show in lists of processes; use password_file=PATH")
	}
	if !measure.ValidName(l.database) {
		return nil, fmt.Errorf("parse URL of ClickHouse archive: database %q: use a lowercase letter, then lowercase letters, digits, underscores", l.database)
	}
	if err := l.options(u.Query()); err != nil {
		return nil, fmt.Errorf("parse URL of ClickHouse archive: %w", err)
	}
	port := defaultPort
	if l.tls != nil {
		port = defaultTLSPort
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if host == "" {
			return nil, fmt.Errorf("parse URL of ClickHouse archive: %w", errLocation)
		}
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), port)
		}
		l.hosts = append(l.hosts, host)
	}
	return l, nil
}

// options reads what comes after the question mark.
func (l *location) options(options url.Values) (err error) {
	ca := ""
	for name, values := range options {
		value := values[len(values)-1]
		switch name {
		case "cluster":
			l.cluster = value
		case "password_file":
			if l.password, err = readPassword(value); err != nil {
				return err
			}
		case "reader":
			l.reader = value
		case "reader_password_file":
			if l.readerPassword, err = readPassword(value); err != nil {
				return err
			}
		case "quorum":
			if l.quorum, err = strconv.Atoi(value); err != nil || l.quorum < 1 {
				return fmt.Errorf("quorum %q: use the number of replicas that must have a commit", value)
			}
		case "rollup":
			if l.rollUp, err = time.ParseDuration(value); err != nil || l.rollUp < 0 {
				return fmt.Errorf("rollup %q: use how often rows are added up to roll-ups, such as 5m; 0: never", value)
			}
			if l.rollUp == 0 {
				l.rollUp = -1
			}
		case "secure":
			secure, failed := strconv.ParseBool(value)
			if failed != nil {
				return fmt.Errorf("secure %q: use true or false", value)
			}
			if secure {
				l.tls = &tls.Config{MinVersion: tls.VersionTLS12}
			}
		case "ca":
			ca = value
		default:
			return fmt.Errorf("unknown option %q: the options are cluster, password_file, reader, reader_password_file, quorum, rollup, secure, ca", name)
		}
	}
	if ca == "" {
		return nil
	}
	if l.tls == nil {
		return errors.New("option ca needs secure=true")
	}
	text, err := os.ReadFile(ca)
	if err != nil {
		return fmt.Errorf("read certificates: %w", err)
	}
	l.tls.RootCAs = x509.NewCertPool()
	if !l.tls.RootCAs.AppendCertsFromPEM(text) {
		return fmt.Errorf("read certificates %s: none in PEM", ca)
	}
	return nil
}

func readPassword(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read password file: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}
