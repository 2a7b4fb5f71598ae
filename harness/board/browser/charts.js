// Charts, once their library has been read: it comes last in the page.
function drawCharts() {}
