/* Notes: metadata of the experiment, its points and their fields. */
#include "sink.h"

static struct value text_value(const char *text)
{
	return (struct value){.type = OML_STRING_VALUE, .bytes = text, .length = strlen(text)};
}

void sink_note(struct sink *sink, const char *subject, const char *key, const char *value)
{
	struct value values[] = {text_value(subject), text_value(key), text_value(value)};

	sink_take(sink, 0, ++sink->notes, now_real(), values, 3);
}

/* A value as text; 0, or -1 for those that have none. */
static int note_text(struct buffer *to, OmlValueT type, const OmlValueU *value)
{
	struct value v;

	if (!type_name(type) || omlc_is_vector_type(type) || type == OML_BLOB_VALUE) /* notes are short */
		return -1;
	value_of(&v, type, value);
	return type == OML_STRING_VALUE ? buffer_add(to, v.bytes, v.length) : encode_scalar(to, &v);
}

int omlc_inject_metadata(OmlMP *mp, const char *key, const OmlValueU *value, OmlValueT type, const char *field)
{
	struct buffer subject = {0}, text = {0};
	int result = -1;

	if (atomic_load(&library.stage) != STAGE_RUNNING || !key || !value || (field && !mp))
		return library.options.noop ? 0 : -1;
	if (!mp && strcmp(key, "schema") == 0) { /* that would define a stream */
		logerror("oml: omlc_inject_metadata: the key schema is reserved\n");
		return -1;
	}
	buffer_print(&subject, ".%s%s%s", mp ? mp->name : "", field ? "." : "", field ? field : "");
	if (note_text(&text, type, value) == 0 && subject.bytes && buffer_add(&text, "", 1) == 0) {
		library_lock();
		for (struct sink *s = library.sinks; s; s = s->next)
			sink_note(s, (const char *)subject.bytes, key, (const char *)text.bytes);
		library_unlock();
		result = 0;
	}
	buffer_free(&subject);
	buffer_free(&text);
	return result;
}
