-- SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0
--
-- Wireshark dissector of Pillion's marks: the IPv6 Destination Options header
-- of the native encoding, the IPv4 shim of shim, ipip and udp, what follows a
-- shim, the UDP option of udp-option and the TCP option of tcp-option. The layouts are those of wire.h.
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
local ERA = 2 ^ 32
local EXPERIMENT, EXID, EXID_SPARSE = 127, 0x504c, 0x504d
local SPARSE, TAGGED, TAG = 4, 8, 4 -- TAG: bytes of a tag
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
    tag = ProtoField.uint32("pillion.tag", "Tag", base.HEX),
}
pillion.fields = fields
local malformed = ProtoExpert.new("pillion.malformed", "Malformed mark", expert.group.MALFORMED, expert.severity.ERROR)
pillion.experts = { malformed }
pillion.prefs.port = Pref.uint("UDP port", 50253, "Destination port of the udp encoding")

local dstopts = Field.new("ipv6.dstopts.nxt")
local ip_proto = Field.new("ip.proto")
local ip_src = Field.new("ip.src")
local ip_dst = Field.new("ip.dst")
local udp_length = Field.new("udp.length")
local tcp_hdr_len = Field.new("tcp.hdr_len")
local ip_version = Field.new("ip.version")
local ipv6_plen = Field.new("ipv6.plen")

local modules_names = { "delay", "loss", "delay,loss" }

local function is_exid(id)
    return id == EXID or id == EXID_SPARSE
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

-- dissect_shim returns the size of a shim and the protocol that follows; nil
-- for a malformed one; zero for what is none.
local function dissect_shim(tvb, pinfo, tree, encoding)
    if tvb:len() < 1 then
        return 0
    end
    local kind = tvb(0, 1):uint()
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
    if length ~= want then
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
    if tagged then
        mark:add(fields.tag, tvb(want, TAG))
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

-- dissect_options reads the Destination Options header at the start of range.
local function dissect_options(range, pinfo, tree)
    local whole = range:len()
    if whole < 3 then
        return
    end
    local first = range(2, 1):uint()
    if first ~= OPTION_DELAY and first ~= OPTION_LOSS then
        return
    end
    local size = 8 * (range(1, 1):uint() + 1)
    if whole < size then
        return add_malformed(tree, range, "native", "header cut short")
    end
    local header = range(0, size)
    local function is(at, kind, length)
        return header(at, 1):uint() == kind and header(at + 1, 1):uint() == length
    end
    local function padded(at)
        if size - at == 1 then
            return header(at, 1):uint() == 0 -- Pad1
        elseif not is(at, OPTION_PADN, size - at - 2) then
            return false
        end
        for i = at + 2, size - 1 do
            if header(i, 1):uint() ~= 0 then
                return false
            end
        end
        return true
    end
    -- What a loss option at an offset has: its length, with a byte of flags or not, with a tag or not.
    local function loss(at, length, sparse, tagged)
        local stop = at + 2 + length
        return is(at, OPTION_LOSS, length) and (not sparse or header(at + 6, 1):uint() == SPARSE)
            and (stop == size or padded(stop))
            and { number = at + 2, flags = sparse and at + 6, tag = tagged and stop - TAG }
    end
    local delay = is(2, OPTION_DELAY, 16)
    local modules, found
    if header(0, 1):uint() == 0 then
        return add_malformed(tree, header, "native", "Hop-by-Hop header after the mark")
    elseif size == 24 and delay and padded(20) then
        modules, found = 1, {}
    elseif size == 8 then
        modules, found = 2, loss(2, 4)
    elseif size == 16 then
        modules, found = 2, loss(2, 8, false, true)
    elseif size == 32 and delay then
        modules = 3
        found = loss(20, 4) or loss(20, 5, true) or loss(20, 8, false, true) or loss(20, 9, true, true)
    end
    if not found then
        return add_malformed(tree, header, "native", "options are not those of a mark")
    end
    local mark = add_mark(tree, header, "native", modules, header(0, 1))
    if modules ~= 2 then
        add_delay(mark, header(4, 16), pinfo)
    end
    if found.number then
        add_loss(mark, header(found.number, 4))
    end
    if found.flags then
        add_sparse(mark, header(found.flags, 1))
    end
    if found.tag then
        mark:add(fields.tag, header(found.tag, TAG))
    end
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
    for _, info in ipairs({ dstopts() }) do
        local at = info.offset
        dissect_options(tvb(at), pinfo, tree)
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
