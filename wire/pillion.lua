-- SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
--
-- Wireshark dissector of Pillion's marks: the IPv6 Destination Options header
-- of the native encoding, the IPv4 shim of shim, ipip and udp, what follows a
-- shim, the UDP option of udp-option and the TCP option of tcp-option. wire.h has the layouts.
-- Of marks that standards define it shows the marks of IOAM (edge to edge, direct export) and
-- Alternate Marking, whoever wrote them, and Pillion's additions to all of them. PDM and the trace of IOAM
-- are decoded by Wireshark itself: ipv6.opt.pdm, ipv6.opt.ioam.
--
--   tshark -X lua_script:pillion.lua -r capture.pcap -Y pillion
--   tshark -X lua_script:pillion.lua -o pillion.port:4000 ...
--
-- It shows what a packet says, once per mark; a header that claims to be a
-- mark and is not well-formed gets the expert item pillion.malformed. It shows
-- tags and does not check them: it has no keys. Unlike Pillion itself it does not compare a tunnel's addresses with the packet's
-- inside, but to tell ipip from a shim that travels in somebody's tunnel.

local PROTOCOL = 253
local IPIP = 4
local NTP_UNIX = 2208988800
local OPTION_DELAY, OPTION_LOSS, OPTION_PADN = 0x3e, 0x1e, 0x01
local OPTION_MODULE = 0x3e -- with any length other than a delay's
local OPTION_PDM, OPTION_ALTMARK, OPTION_IOAM, OPTION_IOAM_HOPS = 0x0f, 0x12, 0x11, 0x31
local IOAM_TRACE, IOAM_E2E, IOAM_DEX = 0, 3, 4
local MODULE_TAG, MODULE_INGRESS = 1, 2
local ERA = 2 ^ 32
local EXPERIMENT, EXID, EXID_SPARSE = 127, 0x504c, 0x504d
local EXID_AGGREGATE, AGGREGATE, FIELDS = 0x5060, 0x80, 0x1f -- FIELDS: the most that a flow has
local SPARSE, TAGGED, TAG = 4, 8, 4 -- TAG: bytes of a tag
local MODULES, MODULES_MAX = 16, 32 -- MODULES_MAX: bytes of the options of modules in a mark
local OPTION = 14 -- bytes of the surplus area, without padding and tag
local TCP_MARK, TCP_OPTION = 253, 12
local TICK = 16 -- nanoseconds

local pillion = Proto("pillion", "Pillion Mark")
local pillion_udp = Proto("pillion_udp", "Pillion Mark in UDP")
local pillion_native = Proto("pillion_native", "Pillion Mark in IPv6")

local fields = {
    encoding = ProtoField.string("pillion.encoding", "Encoding"),
    modules = ProtoField.string("pillion.modules", "Modules"),
    next = ProtoField.uint8("pillion.next", "Next protocol"),
    sent = ProtoField.absolute_time("pillion.sent", "Sent", base.UTC),
    received = ProtoField.absolute_time("pillion.received", "Received", base.UTC),
    sequence = ProtoField.uint32("pillion.sequence", "Sequence", base.DEC, nil, 0x7fffffff),
    single = ProtoField.bool("pillion.single", "Single", 32, nil, 0x80000000),
    sparse = ProtoField.bool("pillion.sparse", "Sparse"),
    aggregate = ProtoField.uint8("pillion.aggregate", "Flow fields", base.HEX, nil, 0x1f),
    tag = ProtoField.uint32("pillion.tag", "Tag", base.HEX),
    ingress = ProtoField.uint32("pillion.ingress", "Ingress"),
    module_id = ProtoField.uint8("pillion.module.id", "Module", base.HEX),
    module_data = ProtoField.bytes("pillion.module.data", "Data"),
    namespace = ProtoField.uint16("pillion.ioam.namespace", "IOAM namespace"),
    sequence64 = ProtoField.uint64("pillion.ioam.sequence64", "Sequence (64 bits)"),
    altmark_flow = ProtoField.uint32("pillion.altmark.flow", "FlowMonID", base.HEX, nil, 0xfffff000),
    altmark_loss = ProtoField.bool("pillion.altmark.loss", "Loss flag (L)", 32, nil, 0x800),
    altmark_delay = ProtoField.bool("pillion.altmark.delay", "Delay flag (D)", 32, nil, 0x400),
    dex_type = ProtoField.uint24("pillion.dex.type", "Trace type", base.HEX),
    dex_flow = ProtoField.uint32("pillion.dex.flow", "Flow", base.HEX),
    dex_sequence = ProtoField.uint32("pillion.dex.sequence", "Sequence"),
}
pillion.fields = fields
local malformed = ProtoExpert.new("pillion.malformed", "Malformed mark", expert.group.MALFORMED, expert.severity.ERROR)
pillion.experts = { malformed }
pillion.prefs.port = Pref.uint("UDP port", 50253, "Destination port of the udp encoding")

local dstopts = Field.new("ipv6.dstopts.nxt")
local hopopts = Field.new("ipv6.hopopts.nxt")
local ip_proto = Field.new("ip.proto")
local ip_src = Field.new("ip.src")
local ip_dst = Field.new("ip.dst")
local udp_length = Field.new("udp.length")
local tcp_hdr_len = Field.new("tcp.hdr_len")
local ip_version = Field.new("ip.version")
local ipv6_plen = Field.new("ipv6.plen")

local modules_names = { "delay", "loss", "delay,loss" }

local function is_exid(id)
    return id == EXID or id == EXID_SPARSE or id > EXID_AGGREGATE and id < EXID_AGGREGATE + FIELDS
end

-- near returns an NTP timestamp as a time in the era nearest to the capture.
local function near(range, pinfo)
    local from = math.floor(pinfo.abs_ts) + NTP_UNIX
    local away = (range(0, 4):uint() - from) % ERA
    if away >= ERA / 2 then
        away = away - ERA
    end
    local seconds = from + away - NTP_UNIX
    local nanoseconds = math.floor(range(4, 4):uint() * 1e9 / ERA + 0.5)
    if nanoseconds == 1e9 then
        seconds, nanoseconds = seconds + 1, 0
    end
    return NSTime.new(math.floor(seconds), nanoseconds)
end

local function add_delay(tree, range, pinfo)
    tree:add(fields.sent, range(0, 8), near(range(0, 8), pinfo))
    if range(8, 4):uint() ~= 0 or range(12, 4):uint() ~= 0 then -- zero: not filled in
        tree:add(fields.received, range(8, 8), near(range(8, 8), pinfo))
    end
end

local function add_loss(tree, range)
    tree:add(fields.single, range)
    tree:add(fields.sequence, range)
end

-- add_sparse says that the numbers of the flow count packets without a mark, too.
local function add_sparse(tree, range)
    tree:add(fields.sparse, range, true)
end

-- is_aggregate reports whether flags name the fields of an aggregate of flows.
local function is_aggregate(flags)
    return flags > AGGREGATE and flags < AGGREGATE + FIELDS
end

-- add_mark adds the tree of a mark and returns it.
local function add_mark(tree, range, encoding, modules, next_range)
    local mark = tree:add(pillion, range)
    mark:add(fields.encoding, encoding):set_generated()
    mark:add(fields.modules, modules_names[modules]):set_generated()
    if next_range then
        mark:add(fields.next, next_range)
    end
    mark:append_text(", " .. modules_names[modules] .. ", " .. encoding)
    return mark
end

local function add_malformed(tree, range, encoding, why)
    local mark = tree:add(pillion, range)
    mark:add(fields.encoding, encoding):set_generated()
    mark:append_text(", malformed: " .. why)
    mark:add_proto_expert_info(malformed, why)
end

-- add_modules adds what the options of modules say, the tag among it.
local function add_modules(mark, options)
    for _, option in ipairs(options) do
        if option.kind == OPTION_MODULE and option.length > 0 and option.length ~= 16 then
            local id, data = option.data(0, 1):uint(), option.length > 1 and option.data(1) or nil
            if id == MODULE_TAG and option.length == 5 then
                mark:add(fields.tag, data)
            elseif id == MODULE_INGRESS and option.length == 5 then
                mark:add(fields.ingress, data)
            else
                mark:add(fields.module_id, option.data(0, 1))
                if data then
                    mark:add(fields.module_data, data)
                end
            end
        end
    end
end

-- add_shim_modules adds the options of modules in a part of a shim; nil if they do not fill it.
local function add_shim_modules(mark, tvb, at, stop)
    local options = {}
    while at < stop do
        local length = at + 1 < stop and tvb(at + 1, 1):uint() or 0
        if tvb(at, 1):uint() ~= OPTION_MODULE or length == 0 or length == 16 or at + 2 + length > stop then
            return nil
        end
        options[#options + 1] = { kind = OPTION_MODULE, data = tvb(at + 2, length), length = length }
        at = at + 2 + length
    end
    add_modules(mark, options)
    return true
end

-- dissect_shim returns the size of a shim and the protocol that follows; nil
-- for a malformed one; zero for what is none.
local function dissect_shim(tvb, pinfo, tree, encoding)
    if tvb:len() < 1 then
        return 0
    end
    local kind = tvb(0, 1):uint()
    local extended = kind >= MODULES
    if extended then
        kind = kind - MODULES
    end
    local tagged, sparse = kind >= TAGGED, false
    if tagged then
        kind = kind - TAGGED
    end
    if kind == SPARSE + 3 then
        kind, sparse = 3, true
    end
    if not modules_names[kind] or tagged and kind == 1 then
        return 0
    end
    if tvb:len() < 4 then
        return add_malformed(tree, tvb(), encoding, "head cut short")
    end
    local length = tvb(2, 1):uint()
    local numbered = ({ 16, 4, 20 })[kind] -- the data without the tag
    local want = numbered + (tagged and TAG or 0)
    local own = want
    if extended and length > want and length <= want + MODULES_MAX then
        want = length
    end
    if length ~= want or extended and want == own then
        return add_malformed(tree, tvb(), encoding, length .. " bytes of data, not " .. want)
    end
    if tvb:len() < 4 + want then
        return add_malformed(tree, tvb(), encoding, "data cut short")
    end
    local protocol = tvb(1, 1):uint()
    if encoding == "udp" and protocol ~= IPIP then
        return add_malformed(tree, tvb(), encoding, "next protocol " .. protocol .. ", not 4")
    end
    local mark = add_mark(tree, tvb(0, 4 + want), encoding, kind, tvb(1, 1))
    if kind ~= 2 then
        add_delay(mark, tvb(4, 16), pinfo)
    end
    if kind ~= 1 then
        add_loss(mark, tvb(numbered, 4))
    end
    if sparse then
        add_sparse(mark, tvb(0, 1))
    end
    if is_aggregate(tvb(3, 1):uint()) then
        mark:add(fields.aggregate, tvb(3, 1))
    end
    if tagged then
        mark:add(fields.tag, tvb(own, TAG))
    end
    if extended and not add_shim_modules(mark, tvb, 4 + own, 4 + want) then
        return add_malformed(tree, tvb(), encoding, "options of modules")
    end
    return 4 + want, protocol
end

local function dissect_next(size, protocol, tvb, pinfo, tree)
    if tvb:len() > size then
        -- What follows may be cut short. Its dissector has then shown so in the
        -- tree, and pcall keeps it from looking like an error of this script.
        pcall(function()
            DissectorTable.get("ip.proto"):try(protocol, tvb(size):tvb(), pinfo, tree)
        end)
    end
end

-- shim_encoding tells ipip from shim by the two innermost IPv4 headers.
local function shim_encoding()
    local protocols, sources, destinations = { ip_proto() }, { ip_src() }, { ip_dst() }
    local n = #protocols
    if n > 1 and n == #sources and n == #destinations
        and protocols[n - 1].value == IPIP
        and sources[n - 1].value == sources[n].value
        and destinations[n - 1].value == destinations[n].value then
        return "ipip"
    end
    return "shim"
end

local function dissect_all(tvb, pinfo, tree, encoding)
    local size, protocol = dissect_shim(tvb, pinfo, tree, encoding)
    if size == 0 then
        return 0
    end
    if size then
        dissect_next(size, protocol, tvb, pinfo, tree)
    end
    return tvb:len()
end

function pillion.dissector(tvb, pinfo, tree)
    return dissect_all(tvb, pinfo, tree, shim_encoding())
end

function pillion_udp.dissector(tvb, pinfo, tree)
    if pinfo.dst_port ~= pillion.prefs.port then
        return 0
    end
    return dissect_all(tvb, pinfo, tree, "udp")
end

-- options_of returns the options in a header: type, and the range of the data. It returns nil
-- unless they fill it.
local function options_of(header)
    local all, at = {}, 2
    while at < header:len() do
        local kind = header(at, 1):uint()
        if kind == 0 then
            at = at + 1
        else
            if at + 2 > header:len() or at + 2 + header(at + 1, 1):uint() > header:len() then
                return nil
            end
            local length = header(at + 1, 1):uint()
            if kind ~= OPTION_PADN then
                all[#all + 1] = { kind = kind, data = length > 0 and header(at + 2, length) or nil, length = length }
            end
            at = at + 2 + length
        end
    end
    return all
end

-- dissect_native reads a header that begins with an option of ours.
local function dissect_native(range, pinfo, tree)
    local whole, size = range:len(), 8 * (range(1, 1):uint() + 1)
    if whole < size then
        return add_malformed(tree, range, "native", "header cut short")
    end
    local header = range(0, size)
    local function is(at, kind, length)
        return at + 2 + length <= size and header(at, 1):uint() == kind and header(at + 1, 1):uint() == length
    end
    local function padded(at)
        if at == size then
            return true
        elseif size - at == 1 then
            return header(at, 1):uint() == 0 -- Pad1
        elseif size - at >= 8 or not is(at, OPTION_PADN, size - at - 2) then
            return false
        end
        for i = at + 2, size - 1 do
            if header(i, 1):uint() ~= 0 then
                return false
            end
        end
        return true
    end
    -- Where options of modules end that begin at an offset.
    local function behind_modules(at)
        while at + 3 <= size and header(at, 1):uint() == OPTION_MODULE and header(at + 1, 1):uint() ~= 16
            and header(at + 1, 1):uint() > 0 and at + 2 + header(at + 1, 1):uint() <= size do
            at = at + 2 + header(at + 1, 1):uint()
        end
        return at
    end
    -- What a loss option at an offset has: its length, with a byte of flags or not, with a tag or not.
    local function loss(at, length, sparse, tagged)
        local stop = at + 2 + length
        return is(at, OPTION_LOSS, length)
            and (not sparse or header(at + 6, 1):uint() == SPARSE and at > 2 or is_aggregate(header(at + 6, 1):uint()))
            and padded(behind_modules(stop))
            and { number = at + 2, flags = sparse and at + 6, tag = tagged and stop - TAG }
    end
    local modules, found
    if header(0, 1):uint() == 0 then
        return add_malformed(tree, header, "native", "Hop-by-Hop header after the mark")
    elseif is(2, OPTION_DELAY, 16) then
        modules, found = 3, loss(20, 4) or loss(20, 5, true) or loss(20, 8, false, true) or loss(20, 9, true, true)
        if not found and padded(behind_modules(20)) then
            modules, found = 1, {}
        end
    else
        modules, found = 2, loss(2, 4) or loss(2, 8, false, true) or loss(2, 5, true) or loss(2, 9, true, true)
    end
    if not found then
        return add_malformed(tree, header, "native", "the options do not form a mark")
    end
    local mark = add_mark(tree, header, "native", modules, header(0, 1))
    if modules ~= 2 then
        add_delay(mark, header(4, 16), pinfo)
    end
    if found.number then
        add_loss(mark, header(found.number, 4))
    end
    if found.flags and header(found.flags, 1):uint() == SPARSE then
        add_sparse(mark, header(found.flags, 1))
    elseif found.flags then
        mark:add(fields.aggregate, header(found.flags, 1))
    end
    if found.tag then
        mark:add(fields.tag, header(found.tag, TAG))
    end
    add_modules(mark, options_of(header))
end

-- dissect_e2e reads the data of an edge-to-edge option of IOAM: fields of which 16 bits say
-- whether they are there. It takes their time for an NTP timestamp, as Pillion writes it.
local function dissect_e2e(data, header, encoding, options, pinfo, tree)
    if data:len() < 6 then
        return
    end
    local types, at = data(4, 2):uint(), 6
    local function field(bit, length)
        if math.floor(types / bit) % 2 == 0 then
            return nil
        end
        at = at + length
        return at <= data:len() and data(at - length, length) or nil
    end
    local long, number = field(0x8000, 8), field(0x4000, 4)
    local seconds, fraction = field(0x2000, 4), field(0x1000, 4)
    if at ~= data:len() then
        return
    end
    local modules = (seconds and fraction and 1 or 0) + ((long or number) and 2 or 0)
    if modules == 0 then
        return
    end
    local mark = add_mark(tree, header, encoding, modules, header(0, 1))
    mark:add(fields.namespace, data(2, 2))
    if modules ~= 2 then
        local stamp = data(at - 8, 8)
        mark:add(fields.sent, stamp, near(stamp, pinfo))
    end
    if number then
        add_loss(mark, number)
    elseif long then
        mark:add(fields.sequence64, long)
    end
    add_modules(mark, options)
end

local function dissect_altmark(data, header, options, tree)
    if data:len() ~= 4 then
        return
    end
    local mark = add_mark(tree, header, "altmark", 2, header(0, 1))
    mark:add(fields.altmark_flow, data)
    mark:add(fields.altmark_loss, data)
    mark:add(fields.altmark_delay, data)
    add_modules(mark, options)
end

local function dissect_dex(data, header, tree)
    if data:len() < 10 then
        return
    end
    local mark = tree:add(pillion, header)
    mark:add(fields.encoding, "ioam-dex"):set_generated()
    mark:append_text(", direct export")
    mark:add(fields.namespace, data(2, 2))
    mark:add(fields.dex_type, data(6, 3))
    local extensions, at = data(5, 1):uint(), 10
    if extensions >= 0x80 and at + 4 <= data:len() then
        mark:add(fields.dex_flow, data(at, 4))
        at = at + 4
    end
    if math.floor(extensions / 0x40) % 2 == 1 and at + 4 <= data:len() then
        mark:add(fields.dex_sequence, data(at, 4))
    end
end

-- dissect_standard reads the options of a header, Hop-by-Hop if hop, that standards define.
local function dissect_standard(range, hop, pinfo, tree)
    local size = 8 * (range(1, 1):uint() + 1)
    local options = size <= range:len() and options_of(range(0, size))
    if not options then
        return
    end
    local header, encoding = range(0, size), "ioam-e2e"
    for _, option in ipairs(options) do
        if hop and option.kind == OPTION_IOAM_HOPS and option.length >= 4 and option.data(1, 1):uint() == IOAM_TRACE then
            encoding = "ioam-trace"
        end
    end
    for _, option in ipairs(options) do
        if option.kind == OPTION_IOAM and option.length >= 4 and option.data(1, 1):uint() == IOAM_E2E then
            dissect_e2e(option.data, header, encoding, options, pinfo, tree)
        elseif option.kind == OPTION_IOAM and option.length >= 4 and option.data(1, 1):uint() == IOAM_DEX then
            dissect_dex(option.data, header, tree)
        elseif option.kind == OPTION_ALTMARK and option.length > 0 then
            dissect_altmark(option.data, header, options, tree)
        elseif option.kind == OPTION_PDM and option.length == 10 and not hop then
            add_modules(add_mark(tree, header, "pdm", 2, header(0, 1)), options)
        end
    end
end

-- dissect_options reads the header of options at the start of range.
local function dissect_options(range, hop, pinfo, tree)
    if range:len() < 3 then
        return
    end
    local first = range(2, 1):uint()
    if not hop and (first == OPTION_DELAY or first == OPTION_LOSS) then
        return dissect_native(range, pinfo, tree)
    end
    dissect_standard(range, hop, pinfo, tree)
end

-- near_ticks returns a time in ticks as the one nearest to the capture. Numbers of Lua
-- are exact up to 2^53: seconds are counted in two parts.
local function near_ticks(range, pinfo)
    local seconds = math.floor(pinfo.abs_ts)
    local within = math.floor((pinfo.abs_ts - seconds) * 1e9 / TICK)
    local high, low = math.floor(seconds / 0x10000), seconds % 0x10000
    local per_second = 1e9 / TICK
    local from = (high * per_second % ERA * 0x10000 + low * per_second + within) % ERA
    local away = (range:uint() - from) % ERA
    if away >= ERA / 2 then
        away = away - ERA
    end
    local ticks = within + away
    local whole = math.floor(ticks / per_second)
    return NSTime.new(seconds + whole, (ticks - whole * per_second) * TICK)
end

-- add_experiment adds the mark of an option of a transport: kind, length, identifier, number, time,
-- and a tag if the option is longer by one. before: what stands before the option in its range.
local function add_experiment(tree, range, before, encoding, pinfo)
    local option = range(before)
    local number, ticks = option(4, 4), option(8, 4)
    local modules = (ticks:uint() ~= 0 and 1 or 0) + (number:uint() ~= 0 and 2 or 0)
    local sparse, tagged = option(2, 2):uint() == EXID_SPARSE, option:len() > TCP_OPTION
    if modules == 0 then
        return add_malformed(tree, range, encoding, "neither number nor time")
    elseif sparse and modules ~= 3 then
        return add_malformed(tree, range, encoding, "sparse, but not number and time")
    elseif tagged and modules == 1 then
        return add_malformed(tree, range, encoding, "tag without a number")
    end
    local mark = add_mark(tree, range, encoding, modules)
    if modules ~= 2 then
        mark:add(fields.sent, ticks, near_ticks(ticks, pinfo))
    end
    if modules ~= 1 then
        add_loss(mark, number)
    end
    if sparse then
        add_sparse(mark, option(2, 2))
    elseif option(2, 2):uint() ~= EXID then
        mark:add(fields.aggregate, option(3, 1))
    end
    if tagged then
        mark:add(fields.tag, option(TCP_OPTION, TAG))
    end
end

-- datagram_end returns where the IP packet ends whose UDP header begins at an offset,
-- and nil if an IP header without options does not stand right before it.
local function datagram_end(tvb, at)
    for _, info in ipairs({ ip_version() }) do
        if info.offset == at - 20 then
            return info.offset + tvb(info.offset + 2, 2):uint()
        end
    end
    for _, info in ipairs({ ipv6_plen() }) do
        if info.offset + 36 == at then
            return at + info.value
        end
    end
end

-- sum16 adds the 16-bit words of a range in one's complement.
local function sum16(sum, range)
    for i = 0, range:len() - 2, 2 do
        sum = sum + range(i, 2):uint()
    end
    while sum > 0xffff do
        sum = sum % 0x10000 + math.floor(sum / 0x10000)
    end
    return sum
end

-- dissect_surplus reads the surplus area of the UDP datagram at an offset.
local function dissect_surplus(tvb, at, pinfo, tree)
    local stop = datagram_end(tvb, at)
    local length = tvb(at + 4, 2):uint()
    if not stop or length < 8 or stop > tvb:len() then
        return
    end
    local size = stop - at - length - length % 2
    if size ~= OPTION and size ~= OPTION + TAG then
        return
    end
    local option = tvb(stop - size, size)
    if option(2, 1):uint() ~= EXPERIMENT or not is_exid(option(4, 2):uint()) then
        return
    end
    if option(3, 1):uint() ~= size - 2 then
        return add_malformed(tree, option, "udp-option", "option of " .. option(3, 1):uint() .. " bytes")
    elseif option(0, 2):uint() == 0 or sum16(stop - at - length, option) ~= 0xffff then
        return add_malformed(tree, option, "udp-option", "checksum of the options")
    elseif length % 2 == 1 and tvb(at + length, 1):uint() ~= 0 then
        return add_malformed(tree, option, "udp-option", "padding")
    end
    add_experiment(tree, option, 2, "udp-option", pinfo)
end

-- is_last_option reports whether the last bytes of TCP options, as many as size, are an option,
-- and not part of another one.
local function is_last_option(options, size)
    local at, last = 0, options:len() - size
    while at < last do
        local kind = options(at, 1):uint()
        if kind == 1 then
            at = at + 1
        elseif kind == 0 or options(at + 1, 1):uint() < 2 then
            return false
        else
            at = at + options(at + 1, 1):uint()
        end
    end
    return at == last
end

-- dissect_segment reads the last option of the TCP header at an offset.
local function dissect_segment(tvb, at, length, pinfo, tree)
    if at + length > tvb:len() then
        return
    end
    for _, size in ipairs({ TCP_OPTION + TAG, TCP_OPTION }) do
        if length >= 20 + size then
            local option = tvb(at + length - size, size)
            if option(0, 1):uint() == TCP_MARK and option(1, 1):uint() == size and is_exid(option(2, 2):uint())
                and is_last_option(tvb(at + 20, length - 20), size) then
                return add_experiment(tree, option, 0, "tcp-option", pinfo)
            end
        end
    end
end

-- The stock dissectors of IPv6, UDP and TCP have no table of such options, so this runs
-- after them.
function pillion_native.dissector(tvb, pinfo, tree)
    for _, info in ipairs({ udp_length() }) do
        dissect_surplus(tvb, info.offset - 4, pinfo, tree)
    end
    for _, info in ipairs({ tcp_hdr_len() }) do
        dissect_segment(tvb, info.offset - 12, info.value, pinfo, tree)
    end
    for _, info in ipairs({ hopopts() }) do
        dissect_options(tvb(info.offset), true, pinfo, tree)
    end
    for _, info in ipairs({ dstopts() }) do
        dissect_options(tvb(info.offset), false, pinfo, tree)
    end
end

local port
local function listen()
    local udp = DissectorTable.get("udp.port")
    if port then
        udp:remove(port, pillion_udp)
    end
    port = pillion.prefs.port
    udp:add(port, pillion_udp)
end

listen()
pillion.prefs_changed = listen
DissectorTable.get("ip.proto"):add(PROTOCOL, pillion)
register_postdissector(pillion_native)
