package pillion

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// object is a JSON object whose keys keep their order.
type object []pair

type pair struct {
	key   string
	value any
}

// MarshalJSON writes the pairs in their order.
func (o object) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, p := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := writeJSONLine(&out, p.key); err != nil {
			return nil, err
		}
		out.WriteByte(':')
		if err := writeJSONLine(&out, p.value); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// writeJSON writes one document, or message of the API, over several lines.
func writeJSON(w io.Writer, value any) error {
	if m, ok := value.(proto.Message); ok {
		value = messageValue(m.ProtoReflect())
	}
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// writeJSONLine writes one document in one line.
func writeJSONLine(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

func messageList[M proto.Message](messages []M) []any {
	list := []any{}
	for _, m := range messages {
		list = append(list, messageValue(m.ProtoReflect()))
	}
	return list
}

// messageValue is a message of the API with the names of its .proto file: every
// field is there, numbers are numbers, times RFC 3339 in UTC, durations text such
// as 1m30s, and what is not set is null. protojson writes 64-bit numbers as text
// and differs in spaces from build to build.
func messageValue(m protoreflect.Message) any {
	if !m.IsValid() {
		return nil
	}
	switch known := m.Interface().(type) {
	case *timestamppb.Timestamp:
		return known.AsTime().UTC().Format(time.RFC3339Nano)
	case *durationpb.Duration:
		return known.AsDuration().String()
	}
	o := object{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		o = append(o, pair{string(f.Name()), fieldValue(m, f)})
	}
	return o
}

func fieldValue(m protoreflect.Message, f protoreflect.FieldDescriptor) any {
	switch {
	case f.IsMap():
		all := map[string]any{} // sorted by encoding/json
		m.Get(f).Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			all[k.String()] = scalar(f.MapValue(), v)
			return true
		})
		return all
	case f.IsList():
		all := []any{}
		list := m.Get(f).List()
		for i := range list.Len() {
			all = append(all, scalar(f, list.Get(i)))
		}
		return all
	case f.HasPresence() && !m.Has(f):
		return nil
	}
	return scalar(f, m.Get(f))
}

func scalar(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return messageValue(v.Message())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		return finite(v.Float())
	}
	return v.Interface()
}

// finite is the number, or nil if JSON cannot represent it.
func finite(v float64) any {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return v
}
