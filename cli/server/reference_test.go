package server

import (
	"reflect"
	"testing"

	"pillion.dev/cli/commandtest"
	"pillion.dev/server"
)

// document describes the program under test.
const document = "../../docs/server.md"

func daemon(t *testing.T) commandtest.Daemon {
	t.Helper()
	parser, err := newParser(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return commandtest.Daemon{
		Name: "pillion-server", Document: document, Unit: "../../dist/pillion-server.service", Parser: parser,
		Config: reflect.TypeFor[server.Config](),
		Read: func(path string) error {
			_, err := server.ReadConfig(path)
			return err
		},
	}
}

func TestReference(t *testing.T)            { daemon(t).TestReference(t) }
func TestExampleConfiguration(t *testing.T) { daemon(t).TestExample(t) }
func TestUnit(t *testing.T)                 { daemon(t).TestUnit(t) }
