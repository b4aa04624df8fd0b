package otlp

import "google.golang.org/protobuf/encoding/protowire"

// field returns the last value of a field of a message: bytes, or a number. The types of the answers are in
// packages that would bring gRPC along.
func field(message []byte, wanted protowire.Number) (value []byte, number uint64, err error) {
	for len(message) > 0 {
		at, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, 0, protowire.ParseError(n)
		}
		message = message[n:]
		switch {
		case at == wanted && kind == protowire.BytesType:
			value, n = protowire.ConsumeBytes(message)
		case at == wanted && kind == protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(at, kind, message)
		}
		if n < 0 {
			return nil, 0, protowire.ParseError(n)
		}
		message = message[n:]
	}
	return value, number, nil
}

// firstField is the message in the first field of a message.
func firstField(message []byte) []byte {
	value, _, err := field(message, 1)
	if err != nil {
		return nil
	}
	return value
}

// parseAnswer reads an ExportMetricsServiceResponse: its partial_success has the rejected_data_points.
func parseAnswer(message []byte) (rejected int64, err error) {
	partial, _, err := field(message, 1)
	if err != nil {
		return 0, err
	}
	_, number, err := field(partial, 1)
	return int64(number), err
}
