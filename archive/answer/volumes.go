package answer

import (
	"fmt"
	"slices"
	"time"

	"pillion.dev/archive"
	"pillion.dev/measure/histogram"
)

// volumesMost is the most groups that one question reads.
const volumesMost = 500_000

// Volumes builds the answer to archive.Volumes, of rows in the order of packets.
type Volumes struct {
	Survey
	Question archive.Volumes
	answer   archive.VolumesAnswer
}

// NewVolumes checks a question.
func NewVolumes(question archive.Volumes) (*Volumes, error) {
	if !question.From.Before(question.To) || !slices.Contains(granularities, question.Granularity) || question.Limit < 1 || question.Limit > volumesMost {
		return nil, fmt.Errorf("%w: volumes require a time range, a granularity and a limit of 1 to %d", archive.ErrQuery, volumesMost)
	}
	return &Volumes{Survey: newSurvey(question.Selection, question.From, question.To, time.Time{}), Question: question}, nil
}

// ReadVolume reads the columns source address or agent, destination, protocol, source port, destination port, source agent,
// destination agent, packets and bytes.
func (v *Volumes) ReadVolume(r Row) {
	pair := Pair{r.Text(5), r.Text(6)}
	v.answer.Volumes = append(v.answer.Volumes, archive.Volume{
		Flow: FlowOf(r, 0), Source: pair.Source, Destination: pair.Destination, Packets: r.Uint(7), Bytes: r.Uint(8), Sessions: v.sessions(pair),
	})
}

// sessions of a pair, the elected one first.
func (v *Volumes) sessions(pair Pair) []string {
	elected, ok := v.Elected[pair]
	if !ok {
		elected = v.Question.Session
	}
	return append([]string{elected}, v.Beside[pair]...)
}

// Full reports whether there may be more groups than were read: then ReadTotal is needed.
func (v *Volumes) Full() bool { return len(v.answer.Volumes) == v.Question.Limit }

// ReadTotal reads the columns number of groups, packets and bytes, of all groups.
func (v *Volumes) ReadTotal(r Row) {
	v.answer.Found, v.answer.Packets, v.answer.Bytes = r.Int(0), r.Uint(1), r.Uint(2)
}

// Answer is what was read.
func (v *Volumes) Answer() archive.VolumesAnswer {
	if !v.Full() {
		v.answer.Found = int64(len(v.answer.Volumes))
		for _, one := range v.answer.Volumes {
			v.answer.Packets, v.answer.Bytes = histogram.Sum(v.answer.Packets, one.Packets), histogram.Sum(v.answer.Bytes, one.Bytes)
		}
	}
	return v.answer
}
