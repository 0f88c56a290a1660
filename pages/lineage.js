// Which snapshot came from where, and where each sandbox stands: a forest, made of what the server lists. Pure.

const byTime = (a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0);

// Nodes: {kind: "start" | "lost" | "snapshot" | "sandbox", id, item, time, children}. A "start" is the empty workspace that a
// sandbox began with; a "lost" one is a snapshot that was deleted while others that came from it remain.
export function lineage(sandboxes, snapshots) {
  const roots = new Map();
  const nodes = new Map();
  const all = [...snapshots];
  for (const s of all)
    nodes.set(s.id, { kind: "snapshot", id: s.id, item: s, time: s.created_at, children: [] });

  function root(kind, id, time) {
    const key = `${kind} ${id}`;
    if (!roots.has(key)) roots.set(key, { kind, id, item: null, time, children: [] });
    return roots.get(key);
  }

  function above(source, sandbox, time) {
    if (!source) return root("start", sandbox, time);
    return nodes.get(source) ?? root("lost", source, time);
  }

  for (const s of all) above(s.parent_snapshot_id, s.sandbox_id, s.created_at).children.push(nodes.get(s.id));
  for (const b of sandboxes) {
    // Sandboxes stand after the snapshots beside them.
    above(b.source_snapshot_id, b.id, b.created_at).children.push({
      kind: "sandbox",
      id: b.id,
      item: b,
      time: `~${b.created_at}`,
      children: [],
    });
  }
  for (const n of [...nodes.values(), ...roots.values()]) n.children.sort(byTime);
  return [...roots.values()].sort(byTime);
}

// The trees in which this sandbox stands, or from which it took a snapshot.
export function family(roots, id) {
  const hit = (n) => (n.kind === "snapshot" ? n.item.sandbox_id === id : n.id === id && n.kind !== "lost");
  return roots.filter((r) => {
    for (const rest = [r]; rest.length > 0;) {
      const n = rest.pop();
      if (hit(n)) return true;
      rest.push(...n.children);
    }
    return false;
  });
}
