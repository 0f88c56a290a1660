"""layout.py reads the same numbers, sizes and offsets from the headers as the C compiler."""

import os
import subprocess
import zlib

import layout


def compiled(tmp_path):
    lines = [f'#include "proto/{h.name}"' for h in layout.HEADERS] + [
        '#include "common/frame.h"',
        "#include <stddef.h>",
        "#include <stdio.h>",
        "int main(void) {",
    ]
    for name, value in layout.MSG.items():
        lines.append(f'printf("MSG_{name} %lld\\n", (long long)MSG_{name});')
        del value
    for s in layout.STRUCTS.values():
        lines.append(f'printf("struct {s.name} %zu\\n", sizeof(struct {s.name}));')
        lines += [f'printf("{s.name}.{f.name} %zu\\n", offsetof(struct {s.name}, {f.name}));' for f in s.fields]
    for name in layout.CONST:
        if name.startswith(("RECORD_", "G_", "GUEST_", "CFG_", "FRAME_", "D_", "END_", "STATE_", "TO_", "FD_P", "P_")) or name.endswith(
            "_MAX"
        ):
            lines.append(f"#ifndef SKIP_{name}")
            lines.append(f'printf("{name} %lld\\n", (long long)({name}));')
            lines.append("#endif")
    source = tmp_path / "dump.c"
    source.write_text("\n".join([*lines, "return 0; }"]))
    command = [os.environ.get("CC", "gcc"), "-std=gnu17", "-D_GNU_SOURCE", f"-I{layout.ROOT}", "-o", tmp_path / "dump", source]
    for skip in ("SKIP_RECORD_HEADER", "SKIP_LOG_LINE_MAX", "SKIP_UINT64_MAX", "SKIP_INT64_MAX", "SKIP_UINT32_MAX"):
        command.append("-D" + skip)
    # chan_send is never called here; an empty one lets the typed senders link.
    source.write_text(
        source.read_text()
        + "\nvoid chan_send(struct chan *c, uint32_t t, uint64_t i, const void *p, size_t l, const void *a, size_t b, int f) {}\n"
    )
    subprocess.run(command, check=True)
    out = subprocess.run([tmp_path / "dump"], check=True, capture_output=True, text=True).stdout
    return dict(line.rsplit(" ", 1) for line in out.splitlines())


def test_numbers_sizes_and_offsets_are_the_compilers(tmp_path):
    said = compiled(tmp_path)
    assert len(said) > 400
    for name, value in said.items():
        value = int(value)
        if name.startswith("struct "):
            assert layout.sizeof(name.removeprefix("struct ")) == value, name
        elif "." in name:
            struct, field = name.split(".")
            assert [f.offset for f in layout.STRUCTS[struct].fields if f.name == field] == [value], name
        else:
            assert layout.CONST[name] == value, name


def test_every_message_fits_its_packet_and_pads_to_eight():
    for row in layout.ROWS.values():
        assert layout.sizeof(row.struct) % 8 == 0
        assert 16 + layout.sizeof(row.struct) + row.tail <= 65536
    assert len(layout.ROWS) == sum(len(t) for t in layout.TABLES.values())
    channels = {"APID_KEYD", "APID_MANAGERD", "MANAGERD_DOCKERD", "MANAGERD_EGRESSD", "MANAGERD_KEYD", "MANAGERD_SESSIOND"}
    assert set(layout.TABLES) == channels | {f"PARENT_{name}" for name in ("APID", "CHILD", "EGRESSD", "KEYD", "MANAGERD")}


def test_pack_and_unpack_are_each_others_inverse():
    fields = {"key": bytes(range(32)), "has_key": 1, "detail": 0, "pad": bytes(5), "peer": "127.0.0.1:4000", "request_id": "r" * 64}
    fields |= {"addr": bytes(range(16)), "subject": "a subject", "again": 1}
    assert layout.unpack("m_ask", layout.pack("m_ask", fields)) == fields
    nested = layout.unpack("m_id", layout.pack("m_id", {"ask": fields, "id": 2**64 - 1}))
    assert nested == {"ask": fields, "id": 2**64 - 1}


def test_frames_carry_zlibs_checksum():
    f = layout.frame(layout.G_DATA, 3, b"hello")
    assert layout.parse_frame(f + b"x") == (layout.G_DATA, 3, b"hello", b"x")
    assert zlib.crc32(b"hello", zlib.crc32(f[:12])) == int.from_bytes(f[12:16], "little")
    assert layout.parse_frame(f[:-1]) is None
