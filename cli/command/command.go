// Package command is what the command lines of the three programs share: the grammar
// of their flags, their log, the notification of systemd, and how wings add commands. It knows no
// command.
package command

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"

	"pillion.dev/internal/quantity"
	"pillion.dev/session"
	"pillion.dev/wire"
)

// New returns the parser of a program's flags. Durations have the grammar of package
// quantity; help texts may name ${encodings}, and the default and the
// range of a session.Settings, as ${lease} and ${lease_range}; commands receive ctx.
func New(ctx context.Context, name, description string, flags any, options ...kong.Option) (*kong.Kong, error) {
	vars := kong.Vars{"encodings": wire.EncodingNames()}
	for _, s := range session.Settings() {
		vars[s.Name], vars[s.Name+"_range"] = s.Default, s.Range()
	}
	return kong.New(flags, append([]kong.Option{
		kong.Name(name),
		kong.Description(description),
		vars,
		kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(duration)),
		kong.TypeMapper(reflect.TypeFor[quantity.Duration](), kong.MapperFunc(duration)),
		kong.KindMapper(reflect.Int, kong.MapperFunc(whole)),
		kong.KindMapper(reflect.Uint64, kong.MapperFunc(count)),
		kong.KindMapper(reflect.Float64, kong.MapperFunc(number)),
		kong.BindTo(ctx, (*context.Context)(nil)),
	}, options...)...)
}

// duration also accepts a value that begins with a hyphen, such as -1s.
func duration(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := Pop(ctx)
	if err != nil {
		return err
	}
	d, err := quantity.ParseDuration(text)
	if err == nil {
		target.SetInt(int64(d))
	}
	return err
}

// whole, count and number accept values that begin with a hyphen as well, so that the error
// of one that is out of range is about the value.
func whole(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := Pop(ctx)
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(text, 10, target.Type().Bits())
	if err != nil {
		return fmt.Errorf("%q is not a whole number, or too large", text)
	}
	target.SetInt(n)
	return nil
}

func count(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := Pop(ctx)
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is negative, not a whole number, or too large", text)
	}
	target.SetUint(n)
	return nil
}

func number(ctx *kong.DecodeContext, target reflect.Value) error {
	text, err := Pop(ctx)
	if err != nil {
		return err
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) {
		return fmt.Errorf("%q is not a number", text)
	}
	target.SetFloat(f)
	return nil
}

// Pop takes the next word of the command line, even one that begins with a hyphen.
func Pop(ctx *kong.DecodeContext) (string, error) {
	token := ctx.Scan.Pop()
	text, ok := token.Value.(string)
	if !ok || token.IsEOL() {
		return "", fmt.Errorf("missing value")
	}
	return text, nil
}

// Log writes to standard error, from level debug on if asked to.
func Log(debug bool) *slog.Logger {
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

// Notify sends the state of a service to systemd (sd_notify(3)), if systemd started it.
func Notify(state string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return
	}
	connection, err := net.Dial("unixgram", path)
	if err != nil {
		return
	}
	defer connection.Close()
	_, _ = connection.Write([]byte(state))
}
