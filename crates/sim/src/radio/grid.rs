//! Nodes by square cell of the plane, to find those near a position without looking at all.

use super::propagation::Position;

/// Numbered nodes in square cells that are at least as wide as the distance of interest: the nodes within that distance
/// of a position are in its cell or in one of the eight around it.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    cell_m: f64,
    origin: Position,
    columns: usize,
    rows: usize,
    cells: Vec<Vec<u32>>,
}

impl Grid {
    /// Maximum number of cells per node: far-flung positions get wider cells.
    const CELLS_PER_NODE: usize = 4;

    /// All nodes at their positions, for distances up to `reach_m`.
    pub(crate) fn new(reach_m: f64, positions: &[Position]) -> Self {
        let bound = |pick: fn(&Position) -> f64| {
            let low = positions.iter().map(pick).fold(f64::INFINITY, f64::min);
            let high = positions.iter().map(pick).fold(f64::NEG_INFINITY, f64::max);
            if low <= high { (low, high - low) } else { (0.0, 0.0) }
        };
        let ((x_m, width_m), (y_m, height_m)) = (bound(|p| p.x_m), bound(|p| p.y_m));
        let max_cells = positions.len() * Self::CELLS_PER_NODE + 1;
        // Cells are at least a metre wide, and there is at least one.
        let mut cell_m = reach_m.max(1.0);
        let count = |extent: f64, cell: f64| (extent / cell).floor() as usize + 1;
        while count(width_m, cell_m).saturating_mul(count(height_m, cell_m)) > max_cells {
            cell_m *= 2.0;
        }
        let (columns, rows) = (count(width_m, cell_m), count(height_m, cell_m));
        let mut grid = Self {
            cell_m,
            origin: Position { x_m, y_m },
            columns,
            rows,
            cells: vec![Vec::new(); columns * rows],
        };
        for (node, position) in positions.iter().enumerate() {
            grid.insert(node, *position);
        }
        grid
    }

    /// Column and row of a position. Positions outside belong to the cells at the border; since cells are not narrower
    /// than the reach and border cells only extend outward, the search around a position stays complete.
    fn cell(&self, at: Position) -> (usize, usize) {
        let index =
            |offset: f64, count: usize| ((offset / self.cell_m).floor().max(0.0) as usize).min(count - 1);
        (index(at.x_m - self.origin.x_m, self.columns), index(at.y_m - self.origin.y_m, self.rows))
    }

    /// Indices of the cell of a position and of the cells around it.
    fn around(&self, at: Position) -> impl Iterator<Item = usize> + use<> {
        let (column, row) = self.cell(at);
        let columns = column.saturating_sub(1)..(column + 2).min(self.columns);
        let rows = row.saturating_sub(1)..(row + 2).min(self.rows);
        let width = self.columns;
        rows.flat_map(move |r| columns.clone().map(move |c| r * width + c))
    }

    /// The nodes in the cell of a position and around it: all that are within reach, and others.
    pub(crate) fn near(&self, at: Position) -> impl Iterator<Item = usize> {
        self.around(at).flat_map(|cell| &self.cells[cell]).map(|&node| node as usize)
    }

    /// Removes those nodes in the cell of a position and around it that `taken` chooses.
    pub(crate) fn take_near(&mut self, at: Position, mut taken: impl FnMut(usize) -> bool) {
        for cell in self.around(at) {
            self.cells[cell].retain(|&node| !taken(node as usize));
        }
    }

    /// Adds a node.
    pub(crate) fn insert(&mut self, node: usize, at: Position) {
        let (column, row) = self.cell(at);
        self.cells[row * self.columns + column].push(node as u32);
    }

    /// Removes a node that is at this position.
    pub(crate) fn remove(&mut self, node: usize, at: Position) {
        let (column, row) = self.cell(at);
        self.cells[row * self.columns + column].retain(|&other| other as usize != node);
    }
}
